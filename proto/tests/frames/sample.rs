//! One value for each variant of each enum that a type is made of. Made from the type's own
//! `Deserialize`, which tells its variants and fields: so a new variant is among them without being
//! listed anywhere.
//!
//! A value is what follows from a list of choices: which variant to take at the first enum, at the
//! second, and so on. The first time that an enum is met, a list is queued for each of its other
//! variants; where a list ends, the first variant is taken.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;

use serde::de::value::U32Deserializer;
use serde::de::{self, DeserializeOwned, DeserializeSeed, IntoDeserializer as _, Visitor};

/// A value, and the variants that were chosen for it.
pub(crate) struct Sample<T> {
    pub(crate) name: String,
    pub(crate) value: T,
}

/// Values that together have each variant of each enum in `T`, and each kind of optional field once
/// without its value.
pub(crate) fn samples<T: DeserializeOwned>() -> Vec<Sample<T>> {
    let mut met = BTreeSet::new();
    let mut queue = VecDeque::from([Vec::new()]);
    let mut made = Vec::new();
    while let Some(chosen) = queue.pop_front() {
        let mut maker = Maker { chosen, ..Maker::default() };
        let value = T::deserialize(&mut maker).expect("a type that can be made out of its parts");
        for point in &maker.points {
            if !met.insert(point.of.clone()) {
                continue;
            }
            for other in 1..point.variants {
                let mut chosen: Vec<u32> =
                    maker.points[..point.at].iter().map(|it| it.taken).collect();
                chosen.push(other);
                queue.push_back(chosen);
            }
        }
        let told = maker.chosen.len().max(1);
        let names: Vec<&str> = maker.points.iter().take(told).map(|it| it.name.as_str()).collect();
        made.push(Sample { name: names.join(" "), value });
    }
    made
}

/// A place at which there was a choice.
struct Point {
    at: usize,
    /// The enum with all its variants: two enums may have one name.
    of: String,
    /// What was taken, as `Enum.Variant`.
    name: String,
    taken: u32,
    variants: u32,
}

/// Makes one value. Numbers and texts are counted up, so that two fields that change places are
/// seen.
#[derive(Default)]
struct Maker {
    chosen: Vec<u32>,
    points: Vec<Point>,
    count: u8,
}

impl Maker {
    fn choose(&mut self, of: &str, variants: &[&str]) -> u32 {
        let at = self.points.len();
        let taken = self.chosen.get(at).copied().unwrap_or(0);
        let name = format!("{of}.{}", variants[taken as usize]);
        let of = format!("{of} {variants:?}");
        let variants = u32::try_from(variants.len()).unwrap();
        self.points.push(Point { at, of, name, taken, variants });
        taken
    }

    fn count(&mut self) -> u8 {
        self.count = self.count.checked_add(1).expect("a value with fewer parts");
        self.count
    }
}

#[derive(Debug)]
struct Unknown(String);

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unknown {}

impl de::Error for Unknown {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// Numbers of each width are so large that they need it, so that another width is seen too.
macro_rules! number {
    ($method:ident, $visit:ident, $type:ty, $least:expr) => {
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unknown> {
            let number = $least + <$type>::from(self.count());
            visitor.$visit(number)
        }
    };
}

macro_rules! no_such_type {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Unknown> {
            Err(Unknown(concat!(stringify!($method), ": no type that crosses the socket needs it so far").to_owned()))
        })*
    };
}

impl<'de> de::Deserializer<'de> for &mut Maker {
    type Error = Unknown;

    fn is_human_readable(&self) -> bool {
        false
    }

    number!(deserialize_u8, visit_u8, u8, 0);
    number!(deserialize_u16, visit_u16, u16, 300);
    number!(deserialize_u32, visit_u32, u32, 70_000);
    number!(deserialize_u64, visit_u64, u64, 5_000_000_000);
    number!(deserialize_i32, visit_i32, i32, 70_000);
    number!(deserialize_i64, visit_i64, i64, 5_000_000_000);

    no_such_type! {
        deserialize_any deserialize_ignored_any deserialize_i8 deserialize_i16 deserialize_f32 deserialize_char
        deserialize_bytes deserialize_unit
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unknown> {
        let count = self.count();
        visitor.visit_f64(f64::from(count) + 0.5)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unknown> {
        visitor.visit_bool(true)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unknown> {
        self.deserialize_string(visitor)
    }

    /// A text that is JSON too, which free fields are in a frame.
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unknown> {
        let count = self.count();
        visitor.visit_string(count.to_string())
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unknown> {
        let count = self.count();
        visitor.visit_byte_buf(vec![count, 0])
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unknown> {
        match self.choose("Option", &["Some", "None"]) {
            0 => visitor.visit_some(self),
            _ => visitor.visit_none(),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Unknown> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Unknown> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unknown> {
        visitor.visit_seq(Parts { maker: self, left: 1 })
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Unknown> {
        visitor.visit_seq(Parts { maker: self, left: len })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Unknown> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unknown> {
        visitor.visit_map(Parts { maker: self, left: 1 })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Unknown> {
        self.deserialize_tuple(fields.len(), visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Unknown> {
        let taken = self.choose(name, variants);
        visitor.visit_enum(Variant { maker: self, taken })
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Unknown> {
        Err(Unknown("fields are told by their place".to_owned()))
    }
}

/// The parts of a list, a map or a struct, one after the other.
struct Parts<'a> {
    maker: &'a mut Maker,
    left: usize,
}

impl<'de> de::SeqAccess<'de> for Parts<'_> {
    type Error = Unknown;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Unknown> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(&mut *self.maker).map(Some)
    }
}

impl<'de> de::MapAccess<'de> for Parts<'_> {
    type Error = Unknown;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Unknown> {
        de::SeqAccess::next_element_seed(self, seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Unknown> {
        seed.deserialize(&mut *self.maker)
    }
}

/// A variant that was chosen.
struct Variant<'a> {
    maker: &'a mut Maker,
    taken: u32,
}

impl<'de> de::EnumAccess<'de> for Variant<'_> {
    type Error = Unknown;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Unknown> {
        let index: U32Deserializer<Unknown> = self.taken.into_deserializer();
        Ok((seed.deserialize(index)?, self))
    }
}

impl<'de> de::VariantAccess<'de> for Variant<'_> {
    type Error = Unknown;

    fn unit_variant(self) -> Result<(), Unknown> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Unknown> {
        seed.deserialize(self.maker)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Unknown> {
        de::Deserializer::deserialize_tuple(self.maker, len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Unknown> {
        de::Deserializer::deserialize_tuple(self.maker, fields.len(), visitor)
    }
}
