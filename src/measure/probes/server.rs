//! Counters that the server keeps.

use crate::domain::Major;
use crate::sql::{Connection, SqlError};

/// First major whose WAL positions are plain 64-bit numbers; before it the last 16 MiB of each
/// 4 GiB were left out (release notes of 9.3).
const LINEAR_WAL_SINCE: Major = Major::new(9, 3);

/// What the server's background processes did so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::measure) struct Background {
    /// Checkpoints begun, for whatever reason.
    pub(in crate::measure) checkpoints: Option<u64>,
    /// Automatic vacuums and analyzes of the database's tables; not counted before 9.1.
    pub(in crate::measure) autovacuums: Option<u64>,
}

/// Buffers that the database's backends asked for so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::measure) struct Buffers {
    /// Found in shared memory.
    pub(in crate::measure) hit: u64,
    /// Read from the operating system.
    pub(in crate::measure) read: u64,
}

/// The first of `names` that the catalogue has, in the column `column` of `relation`. What a release cycle renamed, its
/// early commits have under the old name, so the version does not tell.
fn present(connection: &Connection, relation: &str, column: &str, names: &[&str]) -> Result<Option<String>, SqlError> {
    for name in names {
        if connection
            .text(&format!("SELECT {column}::text FROM {relation} WHERE {column} = '{name}' LIMIT 1"))?
            .is_some()
        {
            return Ok(Some((*name).to_owned()));
        }
    }
    Ok(None)
}

/// The WAL insert position in bytes.
pub(in crate::measure) fn wal_position(connection: &Connection, major: Major) -> Result<Option<u64>, SqlError> {
    // From 10 on, and before.
    let names = ["pg_current_wal_insert_lsn", "pg_current_wal_insert_location", "pg_current_xlog_insert_location"];
    let Some(function) = present(connection, "pg_proc", "proname", &names)? else { return Ok(None) };
    let position = connection.text(&format!("SELECT {function}()::text"))?;
    Ok(position.and_then(|text| parse_wal_position(&text, major)))
}

fn parse_wal_position(text: &str, major: Major) -> Option<u64> {
    let (high, low) = text.split_once('/')?;
    let (high, low) = (u64::from_str_radix(high, 16).ok()?, u64::from_str_radix(low, 16).ok()?);
    let bytes_per_high = if major >= LINEAR_WAL_SINCE { 1 << 32 } else { 0xff00_0000 };
    Some(high * bytes_per_high + low)
}

/// Buffer counts of the current database. Backends report when they end or are idle, so the caller
/// reads them only after the measuring connection is closed.
pub(in crate::measure) fn buffers(connection: &Connection) -> Result<Option<Buffers>, SqlError> {
    let rows =
        connection.query("SELECT blks_hit, blks_read FROM pg_stat_database WHERE datname = current_database()", &[])?;
    Ok(rows.first().map(|row| {
        let count = |column| u64::try_from(row.get::<_, i64>(column)).unwrap_or(0);
        Buffers { hit: count(0), read: count(1) }
    }))
}

/// Counts of checkpoints and automatic vacuums.
pub(in crate::measure) fn background(connection: &Connection) -> Result<Background, SqlError> {
    // A view of their own from 17 on.
    let checkpoints = match present(connection, "pg_class", "relname", &["pg_stat_checkpointer"])? {
        Some(_) => "SELECT num_timed + num_requested FROM pg_stat_checkpointer",
        None => "SELECT checkpoints_timed + checkpoints_req FROM pg_stat_bgwriter",
    };
    let vacuums = "SELECT coalesce(sum(autovacuum_count + autoanalyze_count), 0)::bigint FROM pg_stat_user_tables";
    let count = |sql: &str| -> Result<Option<u64>, SqlError> {
        Ok(connection.query(sql, &[])?.first().and_then(|row| u64::try_from(row.get::<_, i64>(0)).ok()))
    };
    // From 9.1 on.
    let counts_vacuums = present(connection, "pg_attribute", "attname", &["autovacuum_count"])?.is_some();
    let autovacuums = if counts_vacuums { count(vacuums)? } else { None };
    Ok(Background { checkpoints: count(checkpoints)?, autovacuums })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wal_positions_are_bytes() {
        let parse = |text, major: &str| parse_wal_position(text, major.parse().unwrap());
        assert_eq!(parse("0/16B3D80", "17"), Some(0x16_B3D80));
        assert_eq!(parse("2/10", "9.3"), Some((2 << 32) + 16));
        assert_eq!(parse("2/10", "9.2"), Some(2 * 0xff00_0000 + 16));
        assert_eq!(parse("nonsense", "17"), None);
    }
}
