package cluster

// RequestKind is the operation of a request.
type RequestKind string

// Placement chooses the instances of RunTask; StartTask names them.
const (
	RunTask   RequestKind = "RunTask"
	StartTask RequestKind = "StartTask"
)

// Failure is one entry of an answer's failures.
type Failure struct {
	ARN    string `json:"a,omitempty"`
	Reason string `json:"r"`
	Detail string `json:"d,omitempty"`
}
