//! Which tools a request has, where there are more than it may have: the daemon's own, and those that were chosen. Chosen is
//! what is pinned, what the conversation has called, what a question names, and what a search of the model found. What was
//! chosen stays in its place, and more comes behind it, so that what servers have read of the list stays what it was.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use aishd_log::pattern::Patterns;
use aishd_log::tool::Tool;
use aishd_log::tool_name::{Alias, ToolName, on_the_wire};

use crate::catalog::ToolOffer;
use crate::tool_search::{self, named_words};

/// So many one search finds at most; they have room whatever else was chosen.
pub const FOUND_AT_ONCE: usize = 10;
/// So many one question names at most: a text that was pasted may have the names of all.
const MOST_NAMED: usize = 20;
/// A conversation remembers no more.
const MOST_CHOSEN: usize = 256;
/// Of a name that stands for a tool without its provider in front. Shorter ones are words.
const LEAST_NAME: usize = 4;
/// Providers that the tool that searches names.
const MOST_PROVIDERS: usize = 40;
/// What a definition takes in a request besides its texts, about.
const FRAME_BYTES: usize = 64;
const DESCRIPTION_BYTES: usize = 4096;

/// What the tools of one request may be at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfferBounds {
    pub most: Option<usize>,
    /// Of all that are not the daemon's own, where it is known what the model takes in.
    pub room: Option<OfferRoom>,
}

/// A part of what a model takes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferRoom {
    pub bytes: u64,
    /// The same as people know it.
    pub percent: u64,
    pub tokens: u64,
}

/// Why not all are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExceededBound {
    Count(usize),
    Room(OfferRoom),
}

/// What a choice is made from.
#[derive(Debug)]
pub struct ToolChoice<'a> {
    pub bounds: OfferBounds,
    pub because: ExceededBound,
    pub is_own: fn(&ToolName) -> bool,
    pub pinned: &'a Patterns,
    /// What was chosen before, in the order in which it was.
    pub chosen: &'a [ToolName],
    /// What the context shows calls of, by its real names.
    pub called: &'a HashSet<String>,
    /// What was asked last.
    pub questions: &'a [&'a str],
    /// The tool that searches.
    pub finder: &'a Tool,
}

/// That a choice was made, and what of.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectedTools {
    pub because: ExceededBound,
    /// All that could be sent, without the tool that searches.
    pub available: usize,
    /// What is chosen from now on, and what is no longer.
    pub added: Vec<ToolName>,
    pub dropped: Vec<ToolName>,
    /// What can be found.
    others: Vec<Arc<Tool>>,
}

impl OfferBounds {
    /// Which of them an offer is beyond. What is the daemon's own cannot be left out.
    pub fn exceeded_by(
        &self,
        offer: &ToolOffer,
        is_own: fn(&ToolName) -> bool,
    ) -> Option<ExceededBound> {
        if let Some(most) = self.most.filter(|it| offer.iter().len() > *it) {
            return Some(ExceededBound::Count(most));
        }
        let room = self.room?;
        let others = offer
            .iter()
            .map(|(_, it)| it)
            .filter(|it| !is_own(&it.name));
        let bytes: u64 = others.map(weight).sum();
        (bytes > room.bytes).then_some(ExceededBound::Room(room))
    }
}

impl fmt::Display for ExceededBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(most) => write!(f, "it takes at most {most}"),
            Self::Room(OfferRoom {
                percent, tokens, ..
            }) => write!(
                f,
                "all would take more than {percent} % of its context, {tokens} tokens"
            ),
        }
    }
}

impl SelectedTools {
    /// What fits these words, the best first.
    pub fn find(&self, query: &str) -> Vec<&Arc<Tool>> {
        tool_search::find(&self.others, query, FOUND_AT_ONCE)
    }

    /// Whether a search could find it.
    pub fn has(&self, name: &ToolName) -> bool {
        self.others.iter().any(|it| it.name == *name)
    }

    /// Providers, with how many tools each has.
    pub fn providers(&self) -> String {
        providers(&self.others)
    }

    /// For people, once.
    pub fn notice(&self, model: &str) -> String {
        format!(
            "not all {} tools are sent to {model}, for {}: aish's own are, and those that are pinned, named or were used; it finds others by a search",
            self.available, self.because
        )
    }
}

impl ToolOffer {
    /// As much of it as was chosen.
    pub fn choose(self, choice: &ToolChoice<'_>) -> Self {
        let all = self.into_tools();
        let available = all.len();
        let (mut own, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|it| (choice.is_own)(&it.name));
        let most = match choice.because {
            ExceededBound::Count(most) => most,
            ExceededBound::Room(_) => choice.bounds.most.unwrap_or(usize::MAX),
        };
        if others.is_empty() {
            own.truncate(most);
            return Self::of(own);
        }
        let mut finder = choice.finder.clone();
        finder.description = format!(
            "{} There are tools of {}.",
            finder.description,
            providers(&others)
        );
        own.insert(0, Arc::new(finder));
        let room = most.saturating_sub(own.len());
        let room = room.max(FOUND_AT_ONCE.min(most / 2));
        own.truncate(most.saturating_sub(room).max(1));
        let list = ChosenList::new(&others, choice, room);
        let (kept, added, dropped) = list.settle(choice);
        let selection = SelectedTools {
            because: choice.because,
            available,
            added,
            dropped,
            others,
        };
        Self::of(own.into_iter().chain(kept)).with_selection(selection)
    }
}

/// The list while it is made.
struct ChosenList<'a> {
    by_name: HashMap<&'a ToolName, &'a Arc<Tool>>,
    /// What is there of what was chosen, and then what comes now.
    tools: Vec<&'a Arc<Tool>>,
    has: HashSet<&'a ToolName>,
    added: Vec<ToolName>,
    bytes: u64,
    room: usize,
    byte_room: u64,
}

impl<'a> ChosenList<'a> {
    fn new(others: &'a [Arc<Tool>], choice: &ToolChoice<'_>, room: usize) -> Self {
        let by_name: HashMap<_, _> = others.iter().map(|it| (&it.name, it)).collect();
        let mut list = Self {
            by_name,
            tools: vec![],
            has: HashSet::new(),
            added: vec![],
            bytes: 0,
            room,
            byte_room: choice.bounds.room.map_or(u64::MAX, |it| it.bytes),
        };
        for name in choice.chosen {
            if let Some(tool) = list.by_name.get(name).copied() {
                list.push(tool);
            }
        }
        let pinned = others.iter().filter(|it| is_pinned(choice, it));
        for tool in pinned.take(list.pinned_room()) {
            list.add(tool);
        }
        let called = others
            .iter()
            .filter(|it| choice.called.contains(&it.name.to_string()));
        for tool in called {
            // What had to go does not come back by itself.
            let fits = list.tools.len() < list.goal()
                && list.bytes.saturating_add(weight(tool)) <= list.byte_goal();
            if fits {
                list.add(tool);
            }
        }
        let said: HashSet<&str> = choice
            .questions
            .iter()
            .flat_map(|it| named_words(it))
            .collect();
        let named = others.iter().filter(|it| is_named(it, &said));
        for tool in named.take(MOST_NAMED) {
            list.add(tool);
        }
        list
    }

    fn push(&mut self, tool: &'a Arc<Tool>) -> bool {
        let is_new = self.has.insert(&tool.name);
        if is_new {
            self.bytes = self.bytes.saturating_add(weight(tool));
            self.tools.push(tool);
        }
        is_new
    }

    fn add(&mut self, tool: &'a Arc<Tool>) {
        if self.push(tool) {
            self.added.push(tool.name.clone());
        }
    }

    /// What is pinned leaves room for what is found.
    fn pinned_room(&self) -> usize {
        self.room - FOUND_AT_ONCE.min(self.room / 2)
    }

    /// Where there is too much, it goes down to this at once, so that the list stays what it is for a while.
    fn goal(&self) -> usize {
        (self.room - self.room / 4).max(1)
    }

    fn byte_goal(&self) -> u64 {
        self.byte_room - self.byte_room / 4
    }

    /// What is sent, what is chosen anew, and what is chosen no longer.
    fn settle(mut self, choice: &ToolChoice<'_>) -> (Vec<Arc<Tool>>, Vec<ToolName>, Vec<ToolName>) {
        let mut dropped: Vec<ToolName> = vec![];
        if self.tools.len() > self.room || self.bytes > self.byte_room {
            let stays = self.staying(choice);
            let goes = self.tools.iter().filter(|it| !stays.contains(&it.name));
            dropped = goes.map(|it| it.name.clone()).collect();
            self.tools.retain(|it| stays.contains(&it.name));
            self.added.retain(|it| stays.contains(it));
        }
        let kept = choice.chosen.len() + self.added.len() - dropped.len().min(choice.chosen.len());
        let gone = choice.chosen.iter();
        let gone = gone.filter(|it| !self.by_name.contains_key(it));
        dropped.extend(gone.take(kept.saturating_sub(MOST_CHOSEN)).cloned());
        dropped.retain(|it| choice.chosen.contains(it));
        let tools = self.tools.into_iter().cloned().collect();
        (tools, self.added, dropped)
    }

    /// What is pinned, and of the rest the newest.
    fn staying(&self, choice: &ToolChoice<'_>) -> HashSet<ToolName> {
        let pinned = self.tools.iter().filter(|it| is_pinned(choice, it));
        let pinned: Vec<_> = pinned.take(self.pinned_room()).collect();
        let mut bytes: u64 = pinned.iter().map(|it| weight(it)).sum();
        let mut stays: HashSet<ToolName> = pinned.iter().map(|it| it.name.clone()).collect();
        let mut newest = 0;
        for tool in self.tools.iter().rev() {
            if stays.contains(&tool.name) {
                continue;
            }
            bytes = bytes.saturating_add(weight(tool));
            let is_new = newest < FOUND_AT_ONCE && stays.len() < self.room;
            if !is_new && (stays.len() >= self.goal() || bytes > self.byte_goal()) {
                break;
            }
            newest += 1;
            stays.insert(tool.name.clone());
        }
        stays
    }
}

fn is_pinned(choice: &ToolChoice<'_>, tool: &Tool) -> bool {
    choice.pinned.covering(&tool.name).is_some()
}

/// By its whole name, or by its own where that is no word of a language.
fn is_named(tool: &Tool, said: &HashSet<&str>) -> bool {
    let name = tool.name.to_string();
    if said.contains(&*name) || said.contains(&*on_the_wire(&name)) {
        return true;
    }
    let own = tool.name.tool();
    let inner = own.trim_matches(|it: char| !it.is_ascii_alphanumeric());
    let is_no_word = inner.contains(|it: char| !it.is_ascii_lowercase())
        && inner
            .get(1..)
            .is_some_and(|it| it.contains(|it: char| !it.is_ascii_lowercase()));
    own.len() >= LEAST_NAME && is_no_word && said.contains(own)
}

/// What a tool takes in a request, about.
fn weight(tool: &Tool) -> u64 {
    let texts = tool.name.to_string().len() + tool.description.len().min(DESCRIPTION_BYTES);
    (texts + tool.schema.to_string().len() + FRAME_BYTES) as u64
}

fn providers(tools: &[Arc<Tool>]) -> String {
    let mut counts: BTreeMap<&Alias, usize> = BTreeMap::new();
    for tool in tools {
        *counts.entry(tool.name.alias()).or_default() += 1;
    }
    let more = counts.len().saturating_sub(MOST_PROVIDERS);
    let named = counts.iter().take(MOST_PROVIDERS);
    let mut named: Vec<String> = named.map(|(it, count)| format!("{it} ({count})")).collect();
    if more > 0 {
        named.push(format!("{more} others"));
    }
    named.join(", ")
}

#[cfg(test)]
mod tests;
