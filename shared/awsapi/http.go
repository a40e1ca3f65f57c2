package awsapi

import (
	"bytes"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// HTTP sends the SDK's requests with bodies that stay readable. The SDK closes a request's body as
// soon as the answer comes; a transport that has sent the body and still looks for its end then
// fails, and drops the connection with the answer in it ("use of closed network connection"). That
// takes an answer within microseconds, as an emulator's or an early refusal is, or a sender that is
// put off for as long as the answer takes, as Lambda does to functions with little memory: every
// client of AWS is to have it. It copies each body, 16 MB at most with DynamoDB.
type HTTP struct {
	// Client sends; nil is http.DefaultClient.
	Client aws.HTTPClient
}

// Do sends a request.
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
