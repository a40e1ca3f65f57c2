package awsapi

import (
	"bytes"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// HTTP sends the SDK's requests with bodies that stay readable.
//
// The SDK closes a request's body as soon as the answer comes. A transport that has sent the body
// and still looks for its end then fails, and drops the connection with the answer in it ("use of
// closed network connection"). That happens if the answer comes within microseconds, as an
// emulator's or an early refusal does, or if the sender is paused for as long as the answer takes,
// as Lambda does to functions with little memory. So every client of AWS must use it. It copies
// each body, which has 16 MB at most with DynamoDB.
type HTTP struct {
	// Client sends the requests; nil is http.DefaultClient.
	Client aws.HTTPClient
}

// Do sends a request, after reading its body into memory.
func (h HTTP) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	if h.Client == nil {
		return http.DefaultClient.Do(r)
	}
	return h.Client.Do(r)
}
