package protocol

import (
	"errors"
	"net/http"

	"berth/shared/cluster"
)

// AsAPIError returns an API's error with its HTTP status. Any other error becomes an
// InternalFailure without details.
func AsAPIError(err error) (e *cluster.Error, status int) {
	if !errors.As(err, &e) {
		return &cluster.Error{Code: "InternalFailure", Message: "the fleet failed"}, http.StatusInternalServerError
	}
	return e, http.StatusBadRequest
}

// WriteReply answers a request.
func WriteReply(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a caller who has gone does not matter
}

// UnknownOperation returns the error of an operation that is not simulated.
func UnknownOperation(name string) error {
	return cluster.Errorf("InvalidAction", "%.100q is no operation of the fleet", name)
}
