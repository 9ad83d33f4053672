//! (front page to be written)
