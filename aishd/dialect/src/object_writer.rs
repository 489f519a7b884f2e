//! JSON objects and lists that are written without a detour: the texts of a long conversation are megabytes. What is small is
//! left to `serde_json`.

use serde::Serialize;

use crate::escape::quote;

/// One object, field after field.
#[derive(Debug)]
pub(crate) struct ObjectWriter<'a> {
    to: &'a mut String,
    begun: bool,
}

impl<'a> ObjectWriter<'a> {
    pub(crate) fn begin(to: &'a mut String) -> Self {
        to.push('{');
        Self { to, begun: false }
    }

    pub(crate) fn text(&mut self, name: &str, text: &str) -> &mut Self {
        let to = self.named(name);
        quote(text, to);
        self
    }

    pub(crate) fn value(&mut self, name: &str, value: &impl Serialize) -> &mut Self {
        let to = self.named(name);
        // What has no key that is not a text cannot fail.
        to.push_str(&serde_json::to_string(value).unwrap_or_default());
        self
    }

    /// A value that is JSON already.
    pub(crate) fn raw(&mut self, name: &str, json: &str) -> &mut Self {
        self.named(name).push_str(json);
        self
    }

    pub(crate) fn object(&mut self, name: &str, write: impl FnOnce(&mut ObjectWriter<'_>)) {
        let to = self.named(name);
        let mut inner = ObjectWriter::begin(to);
        write(&mut inner);
        inner.end();
    }

    pub(crate) fn list<T>(
        &mut self,
        name: &str,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(T, &mut String),
    ) -> &mut Self {
        let to = self.named(name);
        to.push('[');
        for (at, item) in items.into_iter().enumerate() {
            if at > 0 {
                to.push(',');
            }
            write(item, to);
        }
        to.push(']');
        self
    }

    pub(crate) fn end(self) {
        self.to.push('}');
    }

    fn named(&mut self, name: &str) -> &mut String {
        if self.begun {
            self.to.push(',');
        }
        self.begun = true;
        quote(name, self.to);
        self.to.push(':');
        self.to
    }
}
