package transport

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"berth/shared/cluster"
)

// MaxBody is how many bytes a request may have. ECS's longest request, a task definition, has 64
// KiB.
const MaxBody = 1 << 20

// TooLarge returns the error for a request of more than [MaxBody] bytes.
func TooLarge() error {
	return cluster.Errorf(cluster.CodeRequestEntityTooBig, "The request has more than %d bytes.", MaxBody)
}

// ReadBody reads a request of at most [MaxBody] bytes. A longer one is refused before it is read
// completely.
func ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return nil, TooLarge()
	case err != nil:
		return nil, cluster.Errorf(cluster.CodeSerialization, "The request ended early.")
	}
	return body, nil
}

// NoSniff is the value of the header X-Content-Type-Options of every answer. It also tells Berth's
// answers from those of what stands in front of it.
const NoSniff = "nosniff"

// WriteAnswer writes an answer with the headers that every answer has, among them a new request id.
func WriteAnswer(w http.ResponseWriter, contentType string, status int, answer []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Amzn-RequestId", NewRequestID())
	w.Header().Set("X-Content-Type-Options", NoSniff)
	w.WriteHeader(status)
	_, _ = w.Write(answer) // a caller who has gone does not matter
}

// CheckLoopback refuses requests for another host than this machine, and those of a web page of
// another origin. Any page that a user visits could have its own name resolve to this machine (DNS
// rebinding) and call the API with the user's access.
func CheckLoopback(r *http.Request) error {
	if !IsLoopback(r.Host) {
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

// IsLoopback reports whether a host, with or without a port, is this machine under a name that
// no other server can claim.
func IsLoopback(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	ip := net.ParseIP(strings.Trim(name, "[]"))
	return strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback()
}

// NewRequestID returns a random UUID (version 4).
func NewRequestID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
