//! Tables for other programs, as Parquet, CSV and JSON.

use polars::prelude::*;
use serde_json::{Map, Value};

use super::ColumnsError;
use crate::domain::{Table, Values};

fn frame(table: &Table) -> Result<DataFrame, ColumnsError> {
    let columns = table.columns.iter().map(|column| {
        let name = column.name.into();
        match &column.values {
            Values::Text(values) => Column::new(name, values),
            Values::Real(values) => Column::new(name, values),
            Values::Count(values) => Column::new(name, values),
            Values::Truth(values) => Column::new(name, values),
        }
    });
    DataFrame::new(table.height(), columns.collect()).map_err(ColumnsError::Parquet)
}

/// The table as the bytes of a Parquet file.
pub fn table_to_parquet(table: &Table) -> Result<Vec<u8>, ColumnsError> {
    let mut bytes = Vec::new();
    ParquetWriter::new(&mut bytes).finish(&mut frame(table)?).map_err(ColumnsError::Parquet)?;
    Ok(bytes)
}

/// The table as CSV with a line of names; numbers in the shortest form that reads back as the same, nothing where
/// there is no value.
pub fn table_to_csv(table: &Table) -> Result<Vec<u8>, ColumnsError> {
    let mut bytes = Vec::new();
    CsvWriter::new(&mut bytes).finish(&mut frame(table)?).map_err(ColumnsError::Parquet)?;
    Ok(bytes)
}

/// The table as a JSON array of objects, one to a line, `null` where there is no value.
#[must_use]
pub fn table_to_json(table: &Table) -> Vec<u8> {
    let mut text = String::from("[");
    for row in 0..table.height() {
        let object: Map<String, Value> =
            table.columns.iter().map(|column| (column.name.to_owned(), json_value(&column.values, row))).collect();
        text.push_str(if row == 0 { "\n" } else { ",\n" });
        text.push_str(&Value::Object(object).to_string());
    }
    text.push_str("\n]\n");
    text.into_bytes()
}

fn json_value(values: &Values, row: usize) -> Value {
    match values {
        Values::Text(values) => values[row].as_deref().into(),
        // What JSON has no number for is nothing.
        Values::Real(values) => values[row].into(),
        Values::Count(values) => values[row].into(),
        Values::Truth(values) => values[row].into(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::domain::TableColumn;

    fn table() -> Table {
        let column = |name, values| TableColumn { name, meaning: "", values };
        Table {
            name: "cells".to_owned(),
            about: String::new(),
            columns: vec![
                column("name", Values::Text(vec![Some("a, \"b\"".to_owned()), None])),
                column("qps", Values::Real(vec![Some(0.1 + 0.2), None])),
                column("launches", Values::Count(vec![Some(u64::MAX), None])),
                column("confirmed", Values::Truth(vec![Some(true), None])),
            ],
        }
    }

    #[test]
    fn csv_keeps_every_digit_and_leaves_gaps_empty() {
        let text = String::from_utf8(table_to_csv(&table()).unwrap()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "name,qps,launches,confirmed");
        assert_eq!(lines[1], "\"a, \"\"b\"\"\",0.30000000000000004,18446744073709551615,true");
        assert_eq!(lines[2], ",,,");
    }

    #[test]
    fn json_has_an_object_per_row() {
        let value: Value = serde_json::from_slice(&table_to_json(&table())).unwrap();
        assert_eq!(value[0]["qps"], 0.1 + 0.2);
        assert_eq!(value[0]["launches"], u64::MAX);
        assert_eq!(value[1]["confirmed"], Value::Null);
        let none = Table { columns: Vec::new(), ..table() };
        assert_eq!(serde_json::from_slice::<Value>(&table_to_json(&none)).unwrap(), Value::Array(Vec::new()));
    }

    #[test]
    fn parquet_reads_back() {
        let bytes = table_to_parquet(&table()).unwrap();
        let read = ParquetReader::new(Cursor::new(bytes)).finish().unwrap();
        assert_eq!(read.height(), 2);
        assert_eq!(read.column("launches").unwrap().u64().unwrap().get(0), Some(u64::MAX));
        assert_eq!(read.column("qps").unwrap().f64().unwrap().get(1), None);
    }
}
