package protocol

import (
	"errors"
	"net/http"

	"berth/shared/cluster"
)

// AsAPIError returns the API's error within err, with status 400. Any other error becomes an
// InternalFailure with status 500 and no details: a client of the fleet must not come to depend on
// them.
func AsAPIError(err error) (e *cluster.Error, status int) {
	if !errors.As(err, &e) {
		return &cluster.Error{Code: "InternalFailure", Message: "the fleet failed"}, http.StatusInternalServerError
	}
	return e, http.StatusBadRequest
}

// WriteReply writes the whole answer. Errors of writing are ignored, because a caller who is gone
// cannot be told.
func WriteReply(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// UnknownOperation returns the error of an operation that is not simulated.
func UnknownOperation(name string) error {
	return cluster.Errorf("InvalidAction", "%.100q is no operation of the fleet", name)
}
