//! JSON of strangers, of which only so much is kept: fields by the names that are wanted, short texts, few levels. What it
//! holds beyond that is passed over without a place in memory.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Longer texts count as none.
const MOST_TEXT_BYTES: usize = 300;
/// Items of a list that are kept.
const MOST_ITEMS: usize = 32;

/// A value, as far as it is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum LooseValue {
    /// Null, or what is not kept.
    #[default]
    Nothing,
    Flag(bool),
    Number(f64),
    Text(String),
    List(Vec<Self>),
    Object(BTreeMap<&'static str, Self>),
}

/// What is kept of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LooseSeed {
    /// Fields of objects.
    pub(crate) wanted: &'static [&'static str],
    /// Objects and lists within one another.
    pub(crate) levels: usize,
}

impl LooseValue {
    /// A field of an object; of all else nothing.
    pub(crate) fn get(&self, name: &str) -> &Self {
        const NOTHING: &LooseValue = &LooseValue::Nothing;
        match self {
            Self::Object(fields) => fields.get(name).unwrap_or(NOTHING),
            Self::Nothing | Self::Flag(_) | Self::Number(_) | Self::Text(_) | Self::List(_) => {
                NOTHING
            }
        }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        *self == Self::Nothing
    }

    pub(crate) fn flag(&self) -> Option<bool> {
        match self {
            Self::Flag(flag) => Some(*flag),
            Self::Nothing | Self::Number(_) | Self::Text(_) | Self::List(_) | Self::Object(_) => {
                None
            }
        }
    }

    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Nothing | Self::Flag(_) | Self::Text(_) | Self::List(_) | Self::Object(_) => None,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Nothing | Self::Flag(_) | Self::Number(_) | Self::List(_) | Self::Object(_) => {
                None
            }
        }
    }

    pub(crate) fn list(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) => Some(items),
            Self::Nothing | Self::Flag(_) | Self::Number(_) | Self::Text(_) | Self::Object(_) => {
                None
            }
        }
    }

    /// The texts of a list.
    pub(crate) fn texts(&self) -> Option<Vec<&str>> {
        Some(self.list()?.iter().filter_map(Self::text).collect())
    }
}

impl<'de> DeserializeSeed<'de> for LooseSeed {
    type Value = LooseValue;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<LooseValue, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for LooseSeed {
    type Value = LooseValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<LooseValue, E> {
        Ok(LooseValue::Nothing)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<LooseValue, E> {
        Ok(LooseValue::Flag(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<LooseValue, E> {
        Ok(LooseValue::Number(number as f64))
    }

    fn visit_u64<E>(self, number: u64) -> Result<LooseValue, E> {
        Ok(LooseValue::Number(number as f64))
    }

    fn visit_f64<E>(self, number: f64) -> Result<LooseValue, E> {
        Ok(LooseValue::Number(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<LooseValue, E> {
        Ok(if text.len() > MOST_TEXT_BYTES {
            LooseValue::Nothing
        } else {
            LooseValue::Text(text.to_owned())
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<LooseValue, A::Error> {
        let mut kept = vec![];
        if let Some(inner) = self.inner() {
            while kept.len() < MOST_ITEMS {
                match items.next_element_seed(inner)? {
                    Some(item) => kept.push(item),
                    None => return Ok(LooseValue::List(kept)),
                }
            }
        }
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(LooseValue::List(kept))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<LooseValue, A::Error> {
        let mut kept = BTreeMap::new();
        while let Some(name) = fields.next_key_seed(WantedName(self.wanted))? {
            match (name, self.inner()) {
                (Some(name), Some(inner)) => {
                    kept.insert(name, fields.next_value_seed(inner)?);
                }
                (Some(_) | None, _) => {
                    fields.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(LooseValue::Object(kept))
    }
}

impl LooseSeed {
    fn inner(self) -> Option<Self> {
        let levels = self.levels.checked_sub(1)?;
        Some(Self { levels, ..self })
    }
}

/// One of the names that are wanted.
struct WantedName(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for WantedName {
    type Value = Option<&'static str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for WantedName {
    type Value = Option<&'static str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().find(|it| **it == name).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn read(text: &str) -> LooseValue {
        let seed = LooseSeed {
            wanted: &["a", "b"],
            levels: 3,
        };
        let mut json = serde_json::Deserializer::from_str(text);
        seed.deserialize(&mut json).unwrap()
    }

    #[test]
    fn only_what_is_wanted_is_kept() {
        let deep = format!("{{\"a\": {}1{}}}", "[".repeat(90), "]".repeat(90));
        let mut at = &read(&deep);
        let at = loop {
            match at {
                LooseValue::Object(_) => at = at.get("a"),
                LooseValue::List(items) if !items.is_empty() => at = &items[0],
                other => break other.clone(),
            }
        };
        assert_eq!(LooseValue::List(vec![]), at);
        let found = read(r#"{"a": {"b": -1, "x": {"a": 1}}, "b": ["t", null, 7, true], "c": 5}"#);
        assert_eq!(Some(-1.0), found.get("a").get("b").number());
        assert!(found.get("a").get("x").is_nothing() && found.get("c").is_nothing());
        assert_eq!(Some(vec!["t"]), found.get("b").texts());
        assert_eq!(Some(true), found.get("b").list().unwrap()[3].flag());
        let long = format!("[{}]", vec!["1"; 1000].join(","));
        assert_eq!(MOST_ITEMS, read(&long).list().unwrap().len());
        assert_eq!(
            LooseValue::Nothing,
            read(&format!("\"{}\"", "x".repeat(301)))
        );
    }
}
