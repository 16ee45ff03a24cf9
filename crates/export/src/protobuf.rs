//! As much of the protocol buffer encoding as pprof needs: fields with variable-length integers,
//! bytes and nested messages.
//!
//! Fields that hold their default are left out, as the encoding wants.

/// A message in the making.
#[derive(Debug, Default)]
pub(crate) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// Sets a number.
    pub fn number(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.key(field, 0);
            self.varint(value);
        }
    }

    /// Sets a flag.
    pub fn flag(&mut self, field: u32, value: bool) {
        self.number(field, u64::from(value));
    }

    /// Adds a string to a repeated field; there, an empty one counts.
    pub fn string(&mut self, field: u32, value: &str) {
        self.delimited(field, value.as_bytes());
    }

    /// Adds a message.
    pub fn message(&mut self, field: u32, value: &Message) {
        self.delimited(field, &value.bytes);
    }

    /// Sets a repeated field of numbers.
    pub fn packed(&mut self, field: u32, values: impl IntoIterator<Item = u64>) {
        let mut packed = Message::default();
        values.into_iter().for_each(|value| packed.varint(value));
        self.message(field, &packed);
    }

    /// The encoding.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn delimited(&mut self, field: u32, value: &[u8]) {
        self.key(field, 2);
        self.varint(value.len() as u64);
        self.bytes.extend_from_slice(value);
    }

    fn key(&mut self, field: u32, wire_type: u32) {
        self.varint(u64::from(field << 3 | wire_type));
    }

    fn varint(&mut self, mut value: u64) {
        while 0x80 <= value {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the documentation of the encoding.
    #[test]
    fn encodes_as_documented() {
        let mut inner = Message::default();
        inner.number(1, 150);
        assert_eq!(inner.as_bytes(), [0x08, 0x96, 0x01]);
        let mut outer = Message::default();
        outer.message(3, &inner);
        outer.string(2, "testing");
        outer.packed(6, [3, 270, 86_942]);
        outer.number(9, 0);
        let expected = b"\x1a\x03\x08\x96\x01\x12\x07testing\x32\x06\x03\x8e\x02\x9e\xa7\x05";
        assert_eq!(outer.as_bytes(), expected);
    }
}
