package client

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
)

// ForHandler returns a client of an API in this process. It signs nothing.
func ForHandler(h http.Handler) *Client {
	local := &url.URL{Scheme: "http", Host: "localhost", Path: "/"}
	return &Client{target: &Target{URL: local, Host: local.Host},
		http: &http.Client{Transport: handlerTransport{h}, Timeout: timeout}}
}

// handlerTransport answers requests by a handler.
type handlerTransport struct{ handler http.Handler }

// RoundTrip returns what the handler answers.
func (t handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	served := r.Clone(r.Context())
	served.RequestURI = r.URL.RequestURI()
	w := &recordedAnswer{header: http.Header{}}
	t.handler.ServeHTTP(w, served)
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return &http.Response{StatusCode: w.status, Status: http.StatusText(w.status), Header: w.header,
		Body: io.NopCloser(&w.body), Request: r, ProtoMajor: 1, ProtoMinor: 1}, nil
}

// recordedAnswer is an answer in memory.
type recordedAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *recordedAnswer) Header() http.Header { return w.header }

func (w *recordedAnswer) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *recordedAnswer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}
