package eventsource

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"
)

// answerRequest serves a request to the function URL like any HTTP request.
func (f *Function) answerRequest(ctx context.Context, event []byte) (events.LambdaFunctionURLResponse, error) {
	var in events.LambdaFunctionURLRequest
	if err := json.Unmarshal(event, &in); err != nil {
		return events.LambdaFunctionURLResponse{}, fmt.Errorf("reading function URL request: %w", err)
	}
	principal := callerOf(&in)
	if principal == "" {
		principal = f.UnverifiedCaller
	}
	if principal == "" {
		if f.Log != nil {
			f.Log.WarnContext(ctx, "refused a request that IAM has not "+
				"authorized", "address", in.RequestContext.HTTP.SourceIP)
		}
		return refusal(), nil
	}
	if f.WithPrincipal != nil {
		ctx = f.WithPrincipal(ctx, principal)
	}
	r, err := newRequest(ctx, &in)
	if err != nil {
		// The mistake is the caller's, so the function has not failed.
		return events.LambdaFunctionURLResponse{StatusCode: http.StatusBadRequest}, nil //nolint:nilerr
	}
	w := &response{header: http.Header{}}
	f.URL.ServeHTTP(w, r)
	return w.toLambda(), nil
}

// callerOf returns the ARN of the caller that IAM verified, or empty if IAM verified none.
func callerOf(in *events.LambdaFunctionURLRequest) string {
	if a := in.RequestContext.Authorizer; a != nil && a.IAM != nil {
		return a.IAM.UserARN
	}
	return ""
}

// refusal returns the answer to a request that IAM has not authorized. Such a request did not come
// through the function URL, whose AuthType is AWS_IAM.
func refusal() events.LambdaFunctionURLResponse {
	return events.LambdaFunctionURLResponse{
		StatusCode: http.StatusForbidden, Headers: map[string]string{"Content-Type": "application/x-amz-json-1.1"},
		Body: `{"__type":"AccessDeniedException",` +
			`"message":"IAM has not authorized this request. Call the function URL with a signature."}`,
	}
}

// newRequest converts the event to an HTTP request.
func newRequest(ctx context.Context, in *events.LambdaFunctionURLRequest) (*http.Request, error) {
	body := []byte(in.Body)
	if in.IsBase64Encoded {
		var err error
		if body, err = base64.StdEncoding.DecodeString(in.Body); err != nil {
			return nil, fmt.Errorf("decoding body: %w", err)
		}
	}
	r, err := http.NewRequestWithContext(ctx, in.RequestContext.HTTP.Method, "/", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	// A function URL keeps the path as the client has encoded it: /tags/arn%3Aaws%3Aeks....
	path, err := url.PathUnescape(in.RawPath)
	if err != nil {
		return nil, err
	}
	r.URL = &url.URL{Path: path, RawPath: in.RawPath, RawQuery: in.RawQueryString}
	r.RequestURI = r.URL.RequestURI()
	r.Host, r.RemoteAddr = in.RequestContext.DomainName, in.RequestContext.HTTP.SourceIP
	for name, value := range in.Headers {
		r.Header.Set(name, value)
	}
	if len(in.Cookies) > 0 {
		r.Header.Set("Cookie", strings.Join(in.Cookies, "; "))
	}
	return r, nil
}

// response is an [http.ResponseWriter] that keeps the answer.
type response struct {
	status int
	header http.Header
	body   bytes.Buffer
}

func (w *response) Header() http.Header { return w.header }

func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *response) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// toLambda converts the answer. Lambda takes one value for each header, except for cookies, and a
// body that is not UTF-8 in base64.
func (w *response) toLambda() events.LambdaFunctionURLResponse {
	w.WriteHeader(http.StatusOK)
	out := events.LambdaFunctionURLResponse{StatusCode: w.status, Headers: map[string]string{}}
	for name, values := range w.header {
		if name == "Set-Cookie" {
			out.Cookies = values
			continue
		}
		out.Headers[name] = strings.Join(values, ",")
	}
	out.Body = w.body.String()
	if !utf8.ValidString(out.Body) {
		out.Body, out.IsBase64Encoded = base64.StdEncoding.EncodeToString(w.body.Bytes()), true
	}
	return out
}
