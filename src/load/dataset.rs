//! Fills the table: the same rows in every release, proved by a digest on both sides.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{BufMut, Bytes, BytesMut};

use super::digest::{RowDigest, digest};
use super::random::Random;
use crate::domain::Dataset;
use crate::sql::{Connection, SqlError};

/// Size of one block of COPY data.
const BLOCK_BYTES: usize = 256 * 1024;

/// What went wrong while loading.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// A statement failed.
    #[error("could not load the table '{table}'")]
    Load {
        /// The table.
        table: String,
        /// Why.
        #[source]
        source: SqlError,
    },
    /// regtrack was asked to stop while the rows went in.
    #[error("interrupted while loading the table '{table}'")]
    Interrupted {
        /// The table.
        table: String,
    },
    /// The table holds something else than what was sent.
    #[error("the table '{table}' does not hold the rows that were sent: digest {found}, expected {expected}")]
    Digest {
        /// The table.
        table: String,
        /// Computed by the server.
        found: String,
        /// Computed while generating.
        expected: String,
    },
}

/// Creates the table, copies `rows` generated rows into it, builds the indexes and checks the digest,
/// which is returned. `stop` ends it early; the table is of no use then.
///
/// Rows go in by binary COPY with their `id`, 1 … `rows`: asking the sequence for each would be a sixth of the work. It
/// is set to where the INSERTs of sysbench would leave it.
pub fn load(connection: &Connection, dataset: &Dataset, rows: u64, stop: &AtomicBool) -> Result<String, DatasetError> {
    let error = |source| DatasetError::Load { table: dataset.table.clone(), source };
    connection.execute(&dataset.create_table).map_err(error)?;
    let mut generator = Generator::new(dataset.seed, rows);
    // Quoted: before 9.0.14, 9.1.10 and 9.2.5 BINARY, which is a keyword, is a syntax error there.
    let copy = format!("COPY {} (id, k, c, pad) FROM STDIN WITH (FORMAT 'binary')", dataset.table);
    let is_stopped = || stop.load(Ordering::Relaxed);
    connection.copy_in(&copy, || generator.block().filter(|_| !is_stopped())).map_err(error)?;
    if is_stopped() {
        return Err(DatasetError::Interrupted { table: dataset.table.clone() });
    }
    set_sequence(connection, &dataset.table, rows).map_err(error)?;
    let expected = generator.digest();
    let found = finish(connection, dataset).map_err(error)?;
    if found == expected {
        Ok(found)
    } else {
        Err(DatasetError::Digest { table: dataset.table.clone(), found, expected })
    }
}

/// The next id is one more than the rows.
fn set_sequence(connection: &Connection, table: &str, rows: u64) -> Result<(), SqlError> {
    if rows == 0 {
        return Ok(());
    }
    connection.execute(&format!("SELECT setval(pg_get_serial_sequence('{table}', 'id'), {rows})"))
}

/// Runs the statements that finish the load, and has the rows' digest computed on a second connection beside the last
/// of them: both read the whole table, each in a process of its own.
fn finish(connection: &Connection, dataset: &Dataset) -> Result<String, SqlError> {
    let Some((last, first)) = dataset.finish.split_last() else { return digest(connection, &dataset.table) };
    for statement in first {
        connection.execute(statement)?;
    }
    let endpoint = connection.endpoint();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| digest(&Connection::open(endpoint)?, &dataset.table));
        let built = connection.execute(last);
        let found = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        built.and(found)
    })
}

/// Yields the rows as blocks of COPY data and keeps their digest.
struct Generator {
    random: Random,
    rows: u64,
    done: u64,
    finished: bool,
    sum: RowDigest,
    c: Vec<u8>,
    pad: Vec<u8>,
}

impl Generator {
    fn new(seed: u64, rows: u64) -> Self {
        let (c, pad) = (Vec::new(), Vec::new());
        Self { random: Random::new(seed), rows, done: 0, finished: false, sum: RowDigest::default(), c, pad }
    }

    /// The next block; `None` after the trailer has gone out.
    fn block(&mut self) -> Option<Bytes> {
        /// Signature, flags, length of the header extension (PostgreSQL documentation, COPY).
        const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
        if self.finished {
            return None;
        }
        let mut block = BytesMut::with_capacity(BLOCK_BYTES + 1024);
        if self.done == 0 {
            block.put_slice(HEADER);
        }
        while self.done < self.rows && block.len() < BLOCK_BYTES {
            self.row(&mut block);
        }
        if self.done == self.rows {
            block.put_i16(-1);
            self.finished = true;
        }
        Some(block.freeze())
    }

    fn row(&mut self, block: &mut BytesMut) {
        const FIELDS: i16 = 4;
        self.done += 1;
        // The columns are integers; the rows of a table are fewer than those can number.
        let id = i32::try_from(self.done).unwrap_or(i32::MAX);
        let k = i32::try_from(self.random.uniform(self.rows)).unwrap_or(i32::MAX);
        self.c.clear();
        self.random.digit_groups(10, &mut self.c);
        self.pad.clear();
        self.random.digit_groups(5, &mut self.pad);

        block.put_i16(FIELDS);
        for integer in [id, k] {
            block.put_i32(4);
            block.put_i32(integer);
        }
        for text in [&self.c, &self.pad] {
            block.put_i32(i32::try_from(text.len()).unwrap_or(i32::MAX));
            block.put_slice(text);
        }
        self.sum.add(id, k, &self.c, &self.pad);
    }

    fn digest(&self) -> String {
        self.sum.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(seed: u64, rows: u64) -> (Vec<u8>, String) {
        let mut generator = Generator::new(seed, rows);
        let mut all = Vec::new();
        while let Some(block) = generator.block() {
            all.extend_from_slice(&block);
        }
        (all, generator.digest())
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
        assert_eq!(bytes(42, 3000), bytes(42, 3000));
        assert_ne!(bytes(42, 3000).1, bytes(43, 3000).1);
    }

    #[test]
    fn blocks_form_one_copy_stream() {
        let rows = 3000;
        let (all, digest) = bytes(1, rows);
        // Header, then per row: field count, id, k, c with 119 and pad with 59 characters; trailer.
        assert_eq!(all.len() as u64, 19 + rows * (2 + 8 + 8 + 4 + 119 + 4 + 59) + 2);
        assert!(all.starts_with(b"PGCOPY\n\xff\r\n\0"));
        assert!(all.ends_with(&[0xff, 0xff]));
        assert!(digest.starts_with("3000:"));
    }

    #[test]
    fn an_empty_table_is_a_header_and_a_trailer() {
        assert_eq!(bytes(1, 0), (b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\xff\xff".to_vec(), "0:0".to_owned()));
    }
}
