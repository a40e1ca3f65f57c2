package wire

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"

	"berth/shared/cluster"
)

const (
	// target prefixes the operation's name in the header X-Amz-Target.
	target      = "AmazonEC2ContainerServiceV20141113."
	contentType = "application/x-amz-json-1.1"
	// maxBody is how long a request may be: longer than the longest that ECS takes, a task definition of 64 KiB.
	maxBody = 1 << 20
)

func tooLarge() error {
	return cluster.Errorf(cluster.CodeRequestEntityTooBig, "The request has more than %d bytes.", maxBody)
}

// ServeHTTP answers POST / in the protocol of the ECS API, and what is below /clusters/ in that of the EKS API. Who sent the request must have been established before; only with Loopback
// it refuses requests for another host than this machine, or from a page of another origin, as any page that a user
// visits could have its own name point here (DNS rebinding).
func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	eks := len(m.eks) > 0 && strings.HasPrefix(r.URL.Path, eksPath)
	w.Header().Set("Content-Type", contentType)
	if eks {
		w.Header().Set("Content-Type", eksContentType)
	}
	status, answer := m.answer(w, r, eks)
	w.Header().Set("X-Amzn-RequestId", requestID())
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(answer) // a caller who has gone does not matter
}

func (m *Mux) answer(w http.ResponseWriter, r *http.Request, eks bool) (status int, answer []byte) {
	err := m.admit(r)
	switch {
	case err != nil && eks:
		return eksFailure(w, &eksCall{}, err)
	case err != nil:
		_, answer = failure(err)
		return http.StatusForbidden, answer
	case eks:
		return m.serveEKS(w, r)
	}
	if r.URL.Path != "/" {
		_, answer = failure(cluster.Errorf(cluster.CodeUnknownOperation, "The ECS API is at /."))
		return http.StatusNotFound, answer
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		_, answer = failure(cluster.Errorf(cluster.CodeUnknownOperation, "The ECS API takes POST only."))
		return http.StatusMethodNotAllowed, answer
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != contentType {
		return failure(cluster.Errorf(cluster.CodeUnknownOperation, "The Content-Type must be %s.", contentType))
	}
	op := r.Header.Get("X-Amz-Target")
	name, ok := strings.CutPrefix(op, target)
	switch {
	case ok:
		op = name
	case !strings.HasPrefix(op, ownTarget):
		return failure(cluster.Errorf(cluster.CodeUnknownOperation, "The header X-Amz-Target must be %sOPERATION or %sOPERATION.", target, ownTarget))
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return failure(tooLarge())
	case err != nil:
		return failure(cluster.Errorf(cluster.CodeSerialization, "The request ended early."))
	}
	return m.Serve(r.Context(), op, body)
}

func (m *Mux) admit(r *http.Request) error {
	if !m.Loopback {
		return nil
	}
	if !Local(r.Host) {
		return cluster.Errorf(cluster.CodeAccessDenied, "The host %.100q is not this machine.", r.Host)
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	if u, err := url.Parse(origin); err != nil || !strings.EqualFold(u.Host, r.Host) {
		return cluster.Errorf(cluster.CodeAccessDenied, "The origin %.100q may not use this API.", origin)
	}
	return nil
}

// Local reports whether a host, with a port or not, is this machine by a name that nobody else can claim.
func Local(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	ip := net.ParseIP(strings.Trim(name, "[]"))
	return strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback()
}

// requestID is a random UUID.
func requestID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
