package cluster

// RequestKind says what a [Request] asks for.
type RequestKind string

// RunTask lets placement choose the instances, StartTask names them.
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
