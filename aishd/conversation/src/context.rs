//! What a model is shown: the transcript and what fits of it, summaries of what left, directories, memories, shared
//! resources.

pub(crate) mod aside_model;
pub mod evicted_exchanges;
pub mod extra_context;
pub mod memory_book;
pub(crate) mod memory_proposals;
pub mod model_limits;
pub mod preview;
pub mod resource;
pub(crate) mod stored_results;
pub mod summarize;
pub(crate) mod title;
pub(crate) mod todos;
pub mod token_counts;
pub mod warm_transcripts;
