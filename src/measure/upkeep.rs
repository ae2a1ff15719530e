//! What is done to a table between the slices: brought into memory, vacuumed, checkpointed.

use super::MeasureError;
use crate::domain::Major;
use crate::sql::Connection;

/// First major whose VACUUM can be told to clean indexes.
const INDEX_CLEANUP_SINCE: Major = Major::new(12, 0);

/// Windows of the warm-up whose rates have to agree.
const STABLE_WINDOWS: usize = 3;
/// Largest difference of their rates.
const STABLE_WITHIN: f64 = 0.02;

/// Whether the last rates agree.
pub(super) fn is_stable(rates: &[f64]) -> bool {
    let Some(last) = rates.len().checked_sub(STABLE_WINDOWS).map(|first| &rates[first..]) else { return false };
    let (low, high) = last.iter().fold((f64::INFINITY, 0.0f64), |(low, high), rate| (low.min(*rate), high.max(*rate)));
    high <= low * (1.0 + STABLE_WITHIN)
}

/// Reads the table and its indexes into the server's buffers: by `pg_prewarm`'s library where the build has it, else
/// by scans through the indexes (a scan of the table alone would use a small ring of buffers). Nothing stays in the
/// catalogues but an empty temporary schema.
pub(super) fn cache(admin: &Connection, table: &str) -> Result<(), MeasureError> {
    const PREWARM: &str = "CREATE FUNCTION pg_temp.prewarm(regclass, text, text, int8, int8) RETURNS int8 \
        AS '$libdir/pg_prewarm', 'pg_prewarm' LANGUAGE C";
    if admin.execute(PREWARM).is_ok() {
        let sql = format!(
            "SELECT pg_temp.prewarm(relation, 'buffer', 'main', NULL, NULL) FROM (SELECT '{table}'::regclass AS relation \
             UNION ALL SELECT indexrelid::regclass FROM pg_index WHERE indrelid = '{table}'::regclass) AS relations"
        );
        return admin.execute(&sql).map_err(MeasureError::Admin);
    }
    for sql in [
        "SET enable_seqscan = off; SET enable_bitmapscan = off".to_owned(),
        format!("SELECT count(pad) FROM {table} WHERE id > 0; SELECT count(*) FROM {table} WHERE k > 0"),
        "RESET enable_seqscan; RESET enable_bitmapscan".to_owned(),
    ] {
        admin.execute(&sql).map_err(MeasureError::Admin)?;
    }
    Ok(())
}

/// Vacuum with new statistics, then a checkpoint.
pub(super) fn tidy(admin: &Connection, major: Major, table: &str) -> Result<(), MeasureError> {
    vacuum(admin, major, table)?;
    admin.execute("CHECKPOINT").map_err(MeasureError::Admin)
}

/// Vacuum with new statistics. Rows of asynchronous commits are known to be committed only when their WAL, and that of
/// commits with neighbouring numbers, is on the disk; until then their pages do not count as visible to all, and
/// index-only scans would read them one by one. So a synchronous commit goes before. It has to have written something:
/// one that only took a number would be asynchronous itself (`RecordTransactionCommit` in
/// src/backend/access/transam/xact.c).
pub(super) fn vacuum(admin: &Connection, major: Major, table: &str) -> Result<(), MeasureError> {
    const FLUSH: &str = "BEGIN; SET LOCAL synchronous_commit = on; \
        CREATE TEMPORARY TABLE regtrack_flush (written integer) ON COMMIT DROP; COMMIT";
    admin.execute(FLUSH).map_err(MeasureError::Admin)?;
    let plain = || admin.execute(&format!("VACUUM (VERBOSE, ANALYZE) {table}")).map_err(MeasureError::Admin);
    if major < INDEX_CLEANUP_SINCE {
        return plain();
    }
    // Early commits of the cycle that brought the option lack it.
    admin.execute(&format!("VACUUM (VERBOSE, ANALYZE, INDEX_CLEANUP ON) {table}")).or_else(|_| plain())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_stable_when_the_last_windows_agree() {
        assert!(!is_stable(&[100.0, 100.0]));
        assert!(is_stable(&[100.0, 101.0, 100.0]));
        assert!(is_stable(&[50.0, 80.0, 100.0, 101.0, 102.0]));
        assert!(!is_stable(&[100.0, 100.0, 100.0, 90.0]));
    }
}
