package operation

import "time"

// DeadLetters are the messages of a dead-letter queue: those that a function has failed on as often
// as its queue allows, or that could not be delivered.
type DeadLetters struct {
	Queue    string `json:"queue"`
	Messages int    `json:"messages"`
	// Since is when the oldest of them came into the queue; zero if that is unknown.
	Since time.Time `json:"since,omitzero"`
	// URL is the queue's at SQS; empty for a queue in this process.
	URL string `json:"url,omitempty"`
}
