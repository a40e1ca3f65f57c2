package handler

// WakeUp is the message that wakes dispatch for one cluster.
type WakeUp struct {
	Cluster string `json:"cluster"`
}
