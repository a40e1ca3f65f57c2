package cluster

// Head is what every row has.
type Head struct {
	Cluster string `json:"pk"`
	// Rev counts the writes of this row, from 1.
	Rev int64 `json:"rv"`
	// Stamp is the placement version that a narrowing write of this row made: a snapshot that sees
	// it in the stream knows that it has caught up.
	Stamp int64 `json:"sp,omitempty"`
	// Expires is when the row may be deleted, in Unix seconds; 0 keeps it.
	Expires int64 `json:"ttl,omitempty"`
}

// Header is the head itself.
func (h *Head) Header() *Head { return h }
