//! Reads protocol buffers without knowing what they mean; independent of how they are written.

use std::fmt::Write as _;
use std::io::Read;

/// A field of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    pub fn bytes(&self) -> &'a [u8] {
        match self {
            Value::Bytes(bytes) => bytes,
            Value::Number(number) => panic!("number {number} for bytes"),
        }
    }
}

pub fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    flate2::read::GzDecoder::new(bytes).read_to_end(&mut message).expect("gzip");
    message
}

pub fn fields(mut bytes: &[u8]) -> Vec<(u64, Value<'_>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = match key & 7 {
            0 => Value::Number(varint(&mut bytes)),
            2 => {
                let length = varint(&mut bytes) as usize;
                let (value, rest) = bytes.split_at(length);
                bytes = rest;
                Value::Bytes(value)
            }
            other => panic!("wire type {other}"),
        };
        fields.push((key >> 3, value));
    }
    fields
}

/// A packed field.
pub fn numbers(mut bytes: &[u8]) -> Vec<u64> {
    let mut numbers = Vec::new();
    while !bytes.is_empty() {
        numbers.push(varint(&mut bytes));
    }
    numbers
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (first, rest) = bytes.split_first().expect("a whole number");
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            break;
        }
    }
    value
}

/// The fields of a pprof profile, one line each.
pub fn listing(message: &[u8]) -> String {
    let mut text = String::new();
    for (number, value) in fields(message) {
        let shown = match (number, &value) {
            (6, Value::Bytes(string)) => format!("{:?}", String::from_utf8_lossy(string)),
            (2, Value::Bytes(sample)) => {
                let parts = fields(sample).into_iter().map(|(field, value)| (field, numbers(value.bytes())));
                format!("{:?}", parts.collect::<Vec<_>>())
            }
            (13, Value::Bytes(packed)) => format!("{:?}", numbers(packed)),
            (_, Value::Bytes(inner)) => nested(inner),
            (_, Value::Number(number)) => number.to_string(),
        };
        writeln!(text, "{number}: {shown}").expect("text");
    }
    text
}

fn nested(message: &[u8]) -> String {
    let shown = fields(message).into_iter().map(|(field, value)| match value {
        Value::Number(number) => format!("{field}={number}"),
        Value::Bytes(inner) => format!("{field}=({})", nested(inner)),
    });
    shown.collect::<Vec<_>>().join(" ")
}
