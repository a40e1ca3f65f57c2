package cluster

// Head has the fields that every row has.
type Head struct {
	Cluster string `json:"pk"`
	// Rev counts the writes of this row, from 1.
	Rev int64 `json:"rv"`
	// Stamp is the placement version that a narrowing write of this row made. A snapshot that has
	// applied all records up to it is at that version.
	Stamp int64 `json:"sp,omitempty"`
	// Expires is when the row may be deleted, in Unix seconds; 0 for never.
	Expires int64 `json:"ttl,omitempty"`
}

// Header returns the head itself, so that every row implements state.Row.
func (h *Head) Header() *Head { return h }
