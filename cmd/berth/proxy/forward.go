package proxy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"berth/cmd/berth/client"
	"berth/shared/cluster"
	"berth/shared/wire"
	"berth/shared/wire/access"
)

const (
	// maxAttempts is how often a request is sent at most.
	maxAttempts = 4
	// maxAnswer is more than Lambda lets a function answer.
	maxAnswer = 64 << 20
)

// An answer is what came back for one request.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// forwardRequest sends a request to the API, again if that is safe, and passes the answer on.
func (h *Handler) forwardRequest(w http.ResponseWriter, r *http.Request, body []byte) {
	got, err := h.sendRepeatedly(r, body)
	switch {
	case r.Context().Err() != nil: // the client has gone
	case errors.As(err, new(errNotSent)):
		// Clients do not repeat this: a user must do something first.
		wire.WriteRefusal(w, r, cluster.Errorf("ExpiredTokenException", "berth proxy: %s", err))
	case err != nil:
		wire.WriteRefusal(w, r, cluster.Errorf(wire.CodeUnavailable, "berth proxy: %s", err))
	default:
		h.writeAnswer(w, r, got)
	}
}

// sendRepeatedly sends a request until there is an answer that repeating it could not improve.
func (h *Handler) sendRepeatedly(r *http.Request, body []byte) (got *answer, err error) {
	pause := h.pause
	for attempt := 1; ; attempt++ {
		got, err = h.send(r, body)
		if attempt == maxAttempts || r.Context().Err() != nil || !h.shouldRepeat(r, body, got, err) {
			return got, err
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)): //nolint:gosec // spreads repetitions
		case <-r.Context().Done():
		}
		pause *= 2
	}
}

// send signs a request, sends it, and reads the answer.
func (h *Handler) send(r *http.Request, body []byte) (*answer, error) {
	out := h.newRequest(r.Context(), r, body)
	if err := h.target.SignRequest(r.Context(), out, body, cmp.Or(access.ServiceOf(r), "ecs")); err != nil {
		return nil, errNotSent{err}
	}
	resp, err := h.http.Do(out)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return nil, fmt.Errorf("calling %s: %w", h.target.URL, err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the answer of %s: %w", h.target.URL, err)
	case len(text) > maxAnswer:
		return nil, fmt.Errorf("the answer of %s has more than %d bytes", h.target.URL, maxAnswer)
	}
	return &answer{status: resp.StatusCode, header: resp.Header, body: text}, nil
}

// errNotSent is the error of a request that could not be sent for want of credentials.
type errNotSent struct{ error }

func (e errNotSent) Unwrap() error { return e.error }

// newRequest returns the request to the API: the same method, path, query, headers and body,
// without what authenticated the caller, and without the headers that are for one connection only.
func (h *Handler) newRequest(ctx context.Context, r *http.Request, body []byte) *http.Request {
	to := *h.target.URL
	to.Path = h.target.URL.Path + strings.TrimPrefix(r.URL.Path, "/")
	to.RawPath = h.target.URL.EscapedPath() + strings.TrimPrefix(r.URL.EscapedPath(), "/")
	to.RawQuery, to.ForceQuery = r.URL.RawQuery, r.URL.ForceQuery
	out := (&http.Request{Method: r.Method, URL: &to, Host: h.target.Host, Header: r.Header.Clone(),
		ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body))}).WithContext(ctx)
	if len(body) == 0 {
		out.Body = http.NoBody
	}
	for _, name := range callersHeaders {
		out.Header.Del(name)
	}
	removeConnectionHeaders(out.Header)
	if len(r.Header["User-Agent"]) == 0 {
		out.Header["User-Agent"] = []string{""} // or Go would add its own
	}
	return out
}

// callersHeaders authenticate the caller to the proxy. The proxy does not forward them.
var callersHeaders = []string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token", "X-Amz-Content-Sha256"}

// connectionHeaders concern one connection, and not the request (RFC 9110, section 7.6.1).
var connectionHeaders = []string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect", "Content-Length"}

func removeConnectionHeaders(h http.Header) {
	for _, value := range h.Values("Connection") {
		for _, name := range strings.Split(value, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range connectionHeaders {
		h.Del(name)
	}
}

// shouldRepeat reports whether to send a request again. One that certainly has not been carried out
// may be: no connection could be made, or Lambda has refused it before the function ran. One that
// may have been carried out must change nothing when it is carried out twice.
func (h *Handler) shouldRepeat(r *http.Request, body []byte, got *answer, err error) bool {
	var dial *net.OpError
	switch {
	case errors.As(err, new(errNotSent)):
		return false
	case err != nil:
		return errors.As(err, &dial) && dial.Op == "dial" || isRepeatable(r, body)
	case h.isFromBerth(got):
		return false // the client knows what to do with an answer of the API
	case got.status == http.StatusTooManyRequests:
		return true
	case got.status == http.StatusForbidden && strings.HasPrefix(got.header.Get("X-Amzn-ErrorType"), "ExpiredToken"):
		h.target.RefreshCredentials()
		return true
	case got.status == http.StatusBadGateway, got.status == http.StatusServiceUnavailable,
		got.status == http.StatusGatewayTimeout:
		return isRepeatable(r, body)
	}
	return false
}

// isFromBerth reports whether the API has answered, and not Lambda in front of it.
func (h *Handler) isFromBerth(got *answer) bool {
	return !h.target.IsFunctionURL || client.IsFromBerth(got.header)
}

// withToken are the operations of ECS that Berth carries out only once for a clientToken, and
// withRequestToken the ends of the paths of EKS that take a clientRequestToken.
var (
	withToken        = []string{"CreateService", "RunTask", "StartTask"}
	withRequestToken = []string{"/node-groups", "/update-config", "/update-version"}
)

// isRepeatable reports whether a request that is carried out twice does no more than once: it only
// reads, or has a token by which Berth knows it again.
func isRepeatable(r *http.Request, body []byte) bool {
	var in struct{ ClientToken, ClientRequestToken string }
	_, operation, isECS := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	switch {
	case isECS && access.RightFor(operation) == access.Read, !isECS && r.Method == http.MethodGet:
		return true
	case json.Unmarshal(body, &in) != nil:
		return false
	case isECS:
		return in.ClientToken != "" && slices.Contains(withToken, operation)
	}
	return r.Method == http.MethodPost && in.ClientRequestToken != "" &&
		slices.ContainsFunc(withRequestToken, func(end string) bool { return strings.HasSuffix(r.URL.Path, end) })
}
