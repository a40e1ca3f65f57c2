package proxy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"berth/cmd/berth/client"
	"berth/shared/wire/access"
	"berth/shared/wire/transport"
)

// owner are the credentials that the proxy has.
var owner = aws.Credentials{AccessKeyID: "AKIAOWNER", SecretAccessKey: "owner's secret", SessionToken: "token"}

// A functionURL plays the function URL: it accepts only what the owner has signed for lambda, and
// answers each call as the test says.
type functionURL struct {
	t      *testing.T
	answer http.HandlerFunc

	mu    sync.Mutex
	key   string          // of the access key that may sign
	calls []*http.Request // with their bodies
	token string          // of the last call
}

// ServeHTTP answers one call.
func (f *functionURL) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	key := f.key
	f.mu.Unlock()
	v := access.NewVerifier([]access.Credential{{AccessKeyID: key, SecretAccessKey: owner.SecretAccessKey,
		Principal: "owner"}}, time.Now)
	if _, err := v.Verify(r, access.Scope{Service: "lambda"}); err != nil {
		f.t.Errorf("%s %s is not signed for the function URL: %v", r.Method, r.URL, err)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		f.t.Error(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	f.mu.Lock()
	f.calls, f.token = append(f.calls, r), r.Header.Get("X-Amz-Security-Token")
	f.mu.Unlock()
	f.answer(w, r)
}

func (f *functionURL) mayBeSignedBy(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.key = key
}

func (f *functionURL) callCount() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.calls)
}

// fromBerth answers as the api function does.
func fromBerth(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		transport.WriteAnswer(w, "application/x-amz-json-1.1", status, []byte(body))
	}
}

// fromLambda answers as Lambda does in front of it.
func fromLambda(status int, code, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if code != "" {
			w.Header().Set("X-Amzn-ErrorType", code)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// newProxy returns a proxy in front of a function URL.
func newProxy(t *testing.T, answer http.HandlerFunc) (*httptest.Server, *Handler, *functionURL) {
	t.Helper()
	f := &functionURL{t: t, answer: answer, key: owner.AccessKeyID}
	behind := httptest.NewServer(f)
	t.Cleanup(behind.Close)
	h := newHandlerFor(t, behind.URL+"/_aws/lambda-url/id/")
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server, h, f
}

func newHandlerFor(t *testing.T, endpoint string) *Handler {
	t.Helper()
	for name, v := range map[string]string{
		"AWS_ACCESS_KEY_ID": owner.AccessKeyID, "AWS_SECRET_ACCESS_KEY": owner.SecretAccessKey,
		"AWS_SESSION_TOKEN": owner.SessionToken, "AWS_REGION": "eu-west-1", "AWS_PROFILE": "",
		"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_ENDPOINT_URL": "",
	} {
		t.Setenv(name, v)
	}
	target, err := client.FindTarget(t.Context(), client.Endpoint{Endpoint: endpoint})
	if err != nil {
		t.Fatal(err)
	}
	h := NewHandler(target, NewKey())
	h.pause = time.Millisecond
	return h
}

// A signing is how a test signs a request.
type signing struct {
	id, secret, region, service string
	at                          time.Time
}

// by returns a signing with the proxy's key.
func (h *Handler) by(service string) signing {
	return signing{h.key.ID, h.key.Secret, h.target.Region, service, time.Now()}
}

// newECS returns a request of the ECS API.
func newECS(t *testing.T, endpoint, operation, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint+"/", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Amz-Target", "AmazonEC2ContainerServiceV20141113."+operation)
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	return r
}

// newEKS returns a request of the EKS API.
func newEKS(t *testing.T, endpoint, method, path, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, endpoint+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	return r
}

// newForm returns a request of the query protocol, which STS, IAM and EC2 have.
func newForm(t *testing.T, endpoint, body string) *http.Request {
	t.Helper()
	r := newEKS(t, endpoint, http.MethodPost, "/", body)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	return r
}

// call signs a request unless s is zero, sends it, and returns the answer.
func call(t *testing.T, r *http.Request, s signing) (*http.Response, string) {
	t.Helper()
	if s != (signing{}) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		sum, query := sha256.Sum256(body), r.URL.RawQuery
		if err := v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: s.id, SecretAccessKey: s.secret}, r,
			hex.EncodeToString(sum[:]), s.service, s.region, s.at); err != nil {
			t.Fatal(err)
		}
		r.URL.RawQuery = query // as it was: the signer sorts it
	}
	resp, err := (&http.Transport{DisableCompression: true}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(answer)
}
