package fleet

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"berth/shared/cluster"
	"berth/shared/wire"
)

// maxRequest is how large a request of [Fleet.Balancing] may be.
const maxRequest = 1 << 20

// Balancing speaks, as far as a service scheduler needs them, the protocols of Elastic Load Balancing (version 2), Cloud Map
// and CloudWatch's alarms, and leaves all other requests to next. It takes calls by names of this machine alone, and signed
// ones, whatever the signature: a web page can send neither.
func (f *Fleet) Balancing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		target, discovery := strings.CutPrefix(r.Header.Get("X-Amz-Target"), "Route53AutoNaming_v20170314.")
		alarm, alarms := strings.CutPrefix(r.URL.Path, "/service/GraniteServiceVersion20100801/operation/")
		form := strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded")
		if r.Method != http.MethodPost || !discovery && !alarms && !form {
			next.ServeHTTP(w, r)
			return
		}
		if !wire.Local(r.Host) || !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-") {
			http.Error(w, "only signed calls from this machine are answered", http.StatusForbidden)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
		switch {
		case err != nil:
			http.Error(w, "the request is too large", http.StatusRequestEntityTooLarge)
		case discovery:
			f.discovery(w, target, body)
		case alarms:
			f.cloudWatch(w, alarm, body)
		default:
			f.query(w, body)
		}
	})
}

// asError is any error as one of an API; those that are none say nothing of themselves.
func asError(err error) (e *cluster.Error, status int) {
	if !errors.As(err, &e) {
		return &cluster.Error{Code: "InternalFailure", Message: "the fleet failed"}, http.StatusInternalServerError
	}
	return e, http.StatusBadRequest
}

func reply(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a caller who has gone does not matter
}

func unknownOperation(name string) error {
	return cluster.Errorf("InvalidAction", "%.100q is no operation of the fleet", name)
}
