//! Connections between replicas of one set: framing, mutual TLS, credit, lanes, sessions.
//!
//! What must never enter: the meaning of a message. Replication control, views and files are the
//! owner's subjects; here a message is a number, a body and a payload.
