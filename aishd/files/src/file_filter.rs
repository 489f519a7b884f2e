//! Which files a call is about: by a pattern of names, and by kind.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use ignore::types::{Types, TypesBuilder};
use similar::get_close_matches;

use crate::failure::{FailureKind, FileFailure};

/// Takes all files unless it was told otherwise.
#[derive(Debug, Default)]
pub(crate) struct FileFilter {
    glob: Option<NameGlob>,
    types: Option<Types>,
}

#[derive(Debug)]
struct NameGlob {
    matcher: GlobMatcher,
    /// It says which are not meant.
    is_negated: bool,
    /// It is about names alone, wherever they are.
    is_of_names: bool,
}

impl FileFilter {
    pub(crate) fn of(glob: Option<&str>, file_type: Option<&str>) -> Result<Self, FileFailure> {
        Ok(Self {
            glob: glob.map(NameGlob::of).transpose()?,
            types: file_type.map(types).transpose()?,
        })
    }

    /// `path` begins at the directory that was named.
    pub(crate) fn takes(&self, path: &Path) -> bool {
        let glob = self.glob.as_ref().is_none_or(|it| it.takes(path));
        let types = self.types.as_ref();
        glob && types.is_none_or(|it| !it.matched(path, false).is_ignore())
    }
}

impl NameGlob {
    fn of(text: &str) -> Result<Self, FileFailure> {
        let (is_negated, pattern) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
        let glob = GlobBuilder::new(pattern)
            .literal_separator(true)
            .backslash_escape(true)
            .build();
        let glob = glob.map_err(|error| {
            FileFailure::new(
                FailureKind::BadRequest,
                format!("the glob {text:?} is not right: {}", error.kind()),
            )
        })?;
        Ok(Self {
            matcher: glob.compile_matcher(),
            is_negated,
            is_of_names: !pattern.contains('/'),
        })
    }

    fn takes(&self, path: &Path) -> bool {
        let of = match path.file_name() {
            Some(name) if self.is_of_names => Path::new(name),
            _ => path,
        };
        self.matcher.is_match(of) != self.is_negated
    }
}

fn types(name: &str) -> Result<Types, FileFailure> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    builder.select(name);
    builder.build().map_err(|_unknown| {
        let known = builder.definitions();
        let known: Vec<&str> = known.iter().map(ignore::types::FileTypeDef::name).collect();
        let close = get_close_matches(name, &known, 3, 0.5);
        let hint = match close.is_empty() {
            true => "use `glob` instead, such as \"*.ext\"".to_owned(),
            false => format!("there are {}; or use `glob`", close.join(", ")),
        };
        FileFailure::new(
            FailureKind::BadRequest,
            format!("no type of files is called {name:?}: {hint}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_taken_by_name_and_kind() {
        let check = |glob, file_type, path: &str, expected: bool| {
            let filter = FileFilter::of(glob, file_type).unwrap();
            assert_eq!(expected, filter.takes(Path::new(path)), "{glob:?} {path}");
        };
        check(None, None, "a", true);
        check(Some("*.rs"), None, "src/a/b.rs", true);
        check(Some("*.rs"), None, "b.rsx", false);
        check(Some("src/*.rs"), None, "src/b.rs", true);
        check(Some("src/*.rs"), None, "src/a/b.rs", false);
        check(Some("./src/**/*.{rs,md}"), None, "src/a/b.md", true);
        check(Some("**/*.rs"), None, "b.rs", true);
        check(Some("!*.rs"), None, "b.rs", false);
        check(Some("!*.rs"), None, "b.md", true);
        check(None, Some("rust"), "src/b.rs", true);
        check(None, Some("rust"), "src/b.py", false);
        check(Some("b*"), Some("py"), "src/b.py", true);
        check(Some("b*"), Some("py"), "src/a.py", false);
    }

    #[test]
    fn what_is_not_right_is_said() {
        let check = |glob, file_type, expected: &str| {
            let failure = FileFilter::of(glob, file_type).unwrap_err();
            assert!(failure.text.contains(expected), "{}", failure.text);
        };
        check(
            Some("a{b"),
            None,
            "the glob \"a{b\" is not right: unclosed alternate",
        );
        check(
            None,
            Some("pyton"),
            "no type of files is called \"pyton\": there are python",
        );
        check(None, Some("zzzzqq"), "use `glob` instead");
    }
}
