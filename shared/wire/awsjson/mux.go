package awsjson

import (
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"strings"

	"berth/shared/choice"
	"berth/shared/cluster"
	"berth/shared/wire/transport"
)

// A Mux answers the operations that it was given, by name or over HTTP.
type Mux struct {
	// Guard decides who may call the operations, and logs changes and faults.
	Guard transport.Guard

	operations map[string]Operation
}

// NewMux returns a Mux of operations, by their names in the ECS API (CreateCluster), or by the
// whole value of the header X-Amz-Target for operations of another API.
func NewMux(operations map[string]Operation) *Mux { return &Mux{operations: operations} }

// A Raw is an answer that was encoded elsewhere. It may be an error.
type Raw struct {
	Status int
	Body   []byte
}

// ServeOperation answers one operation with the HTTP status and the body. An operation of the ECS
// API that is not served is an UnsupportedFeatureException, any other name an
// UnknownOperationException.
func (m *Mux) ServeOperation(ctx context.Context, op string, body []byte) (status int, answer []byte) {
	f, served := m.operations[op]
	switch {
	case len(body) > transport.MaxBody:
		return encodeError(transport.TooLarge())
	case served:
		return m.runOperation(ctx, op, f, body)
	case knownOperations[op]:
		return encodeError(cluster.Errorf(cluster.CodeUnsupported, "%s is not supported.", op))
	}
	return encodeError(m.unknownOperation(op))
}

// unknownOperation names the nearest operation that is served.
func (m *Mux) unknownOperation(op string) error {
	name, own := strings.CutPrefix(op, OwnTarget)
	api, known := "the ECS API", []string{}
	if own {
		api = "Berth's own API"
	}
	for served := range m.operations {
		if k, o := strings.CutPrefix(served, OwnTarget); o == own {
			known = append(known, k)
		}
	}
	return cluster.Errorf(cluster.CodeUnknownOperation, "%.100q is no operation of %s%s", name, api,
		choice.End(name, known))
}

// runOperation runs an operation and encodes what it returns.
func (m *Mux) runOperation(ctx context.Context, op string, f Operation, body []byte) (status int, answer []byte) {
	status = http.StatusOK
	name := strings.TrimPrefix(op, OwnTarget)
	err := m.Guard.Run(ctx, name, func() error {
		out, err := f(ctx, body)
		if err != nil {
			return err
		}
		switch o := out.(type) {
		case Raw:
			status, answer = o.Status, o.Body
		case plain:
			answer, err = json.Marshal(o.value)
		default:
			answer, err = EncodeOutput(op, out)
		}
		return err
	})
	if err != nil {
		return encodeError(err)
	}
	if status < http.StatusMultipleChoices {
		m.Guard.LogChange(ctx, name, func() string { return subjectOf(body) })
	}
	return status, answer
}

// AnswerOperation is [Mux.ServeOperation] for a caller in the same process: it returns what the
// operation returns, not encoded. An error is a [cluster.Error].
func (m *Mux) AnswerOperation(ctx context.Context, op string, body []byte) (out any, err error) {
	f, served := m.operations[op]
	if !served {
		return nil, m.unknownOperation(op)
	}
	err = m.Guard.Run(ctx, op, func() (err error) {
		out, err = f(ctx, body)
		return err
	})
	if err != nil {
		return nil, transport.PublicError(err)
	}
	return out, nil
}

// encodeError returns an error in the protocol. An error that is no answer of the API reveals
// nothing: it is in the log.
func encodeError(err error) (status int, answer []byte) {
	e := transport.PublicError(err)
	status = http.StatusBadRequest
	switch e.Code {
	case cluster.CodeServer:
		status = http.StatusInternalServerError
	case cluster.CodeRequestEntityTooBig:
		status = http.StatusRequestEntityTooLarge
	}
	answer, _ = json.Marshal(struct { // strings cannot fail
		Type      cluster.Code `json:"__type"`
		Message   string       `json:"message"`
		Resources []string     `json:"resourceIds,omitempty"`
	}{e.Code, e.Message, e.Resources})
	return status, answer
}

// OwnTarget is the prefix, in the header X-Amz-Target, of the operations that the ECS API does not
// have. They take and return plain JSON. An unknown member is refused, because only Berth
// could have meant it.
const OwnTarget = "Berth_20261121."

const (
	// target is the prefix of the operation's name in the header X-Amz-Target.
	target      = "AmazonEC2ContainerServiceV20141113."
	contentType = "application/x-amz-json-1.1"
)

// ServeHTTP answers POST / in the protocol of the ECS API. Who sent the request must have been
// established before, except for what [transport.Guard.Admit] refuses.
func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, answer := m.answerHTTP(w, r)
	transport.WriteAnswer(w, contentType, status, answer)
}

// answerHTTP checks path, method, content type and target, in that order, before it reads the body.
func (m *Mux) answerHTTP(w http.ResponseWriter, r *http.Request) (status int, answer []byte) {
	if err := m.Guard.Admit(r); err != nil {
		_, answer = encodeError(err)
		return http.StatusForbidden, answer
	}
	if r.URL.Path != "/" {
		_, answer = encodeError(cluster.Errorf(cluster.CodeUnknownOperation, "The ECS API is at /."))
		return http.StatusNotFound, answer
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		_, answer = encodeError(cluster.Errorf(cluster.CodeUnknownOperation, "The ECS API takes POST only."))
		return http.StatusMethodNotAllowed, answer
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != contentType {
		return encodeError(cluster.Errorf(cluster.CodeUnknownOperation, "The Content-Type must be %s.", contentType))
	}
	op := r.Header.Get("X-Amz-Target")
	name, ok := strings.CutPrefix(op, target)
	switch {
	case ok:
		op = name
	case !strings.HasPrefix(op, OwnTarget):
		return encodeError(cluster.Errorf(cluster.CodeUnknownOperation,
			"The header X-Amz-Target must be %sOPERATION or %sOPERATION.", target, OwnTarget))
	}
	body, err := transport.ReadBody(w, r)
	if err != nil {
		return encodeError(err)
	}
	return m.ServeOperation(r.Context(), op, body)
}
