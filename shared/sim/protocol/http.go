package protocol

import (
	"errors"
	"net/http"

	"berth/shared/cluster"
)

// AsError is any error as one of an API; those that are none say nothing of themselves.
func AsError(err error) (e *cluster.Error, status int) {
	if !errors.As(err, &e) {
		return &cluster.Error{Code: "InternalFailure", Message: "the fleet failed"}, http.StatusInternalServerError
	}
	return e, http.StatusBadRequest
}

// Reply answers a request.
func Reply(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a caller who has gone does not matter
}

// UnknownOperation is the error of an operation that no service has.
func UnknownOperation(name string) error {
	return cluster.Errorf("InvalidAction", "%.100q is no operation of the fleet", name)
}
