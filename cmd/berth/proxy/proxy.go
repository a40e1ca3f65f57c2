package proxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"berth/cmd/berth/client"
	"berth/shared/cluster"
	"berth/shared/wire"
	"berth/shared/wire/access"
	"berth/shared/wire/stsapi"
	"berth/shared/wire/transport"
)

// Key is a random access key that only this proxy knows. It is good for nothing else.
type Key struct{ ID, Secret string }

// NewKey returns a new key.
func NewKey() Key {
	var id [9]byte
	var secret [20]byte
	_, _ = rand.Read(id[:]) // it never fails
	_, _ = rand.Read(secret[:])
	return Key{ID: "BERTH" + strings.TrimRight(base32.StdEncoding.EncodeToString(id[:]), "="),
		Secret: hex.EncodeToString(secret[:])}
}

// Handler forwards the requests of tools to Berth's API.
type Handler struct {
	target *client.Target
	key    Key
	http   *http.Client
	sts    http.Handler
	now    func() time.Time
	// pause is how long to wait before the first repetition of a request.
	pause time.Duration
	// slots bounds the requests in progress, and so the memory of their bodies and answers.
	slots chan struct{}

	mu       sync.Mutex
	identity *stsapi.Identity    // nil until somebody has asked
	lent     []access.Credential // credentials that the child got
}

const (
	maxInProgress = 256
	// answerTimeout is longer than any function behind a function URL may take.
	answerTimeout = 16 * time.Minute
)

// NewHandler returns a handler that forwards to the target what is signed with the key or with the
// target's own credentials.
func NewHandler(target *client.Target, key Key) *Handler {
	h := &Handler{target: target, key: key, now: time.Now, pause: 100 * time.Millisecond,
		slots: make(chan struct{}, maxInProgress)}
	h.http = &http.Client{Transport: newTransport(target), Timeout: answerTimeout,
		// The signature is for one host: an answer that leads elsewhere is passed on as it is.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	h.sts = stsapi.Handler(h.identifyCaller, http.HandlerFunc(refuseService))
	return h
}

// newTransport keeps connections open between calls, but not as long as Lambda does, so that a
// request never meets a connection that Lambda is closing. Bodies stay compressed if the client
// asked for that.
func newTransport(target *client.Target) *http.Transport {
	t := target.Transport()
	t.MaxIdleConnsPerHost, t.IdleConnTimeout, t.DisableCompression = 64, 30*time.Second, true
	return t
}

// LendCredentials returns the credentials that the proxy has now, for the child to call other
// services with. Requests that are signed with them are accepted for as long as the proxy runs,
// also when it has newer ones itself.
func (h *Handler) LendCredentials(ctx context.Context) (aws.Credentials, error) {
	keys, err := h.target.Credentials(ctx)
	if err != nil {
		return keys, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lent = append(h.lent, credentialOf(keys))
	return keys, nil
}

// own is the principal that the proxy's credentials belong to; it is never empty.
const own = "the owner of the proxy"

func credentialOf(keys aws.Credentials) access.Credential {
	return access.Credential{AccessKeyID: keys.AccessKeyID, SecretAccessKey: keys.SecretAccessKey, Principal: own}
}

// ServeHTTP answers a request: it refuses it, or forwards it.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := transport.CheckLoopback(r); err != nil {
		wire.WriteRefusal(w, r, err)
		return
	}
	if slices.Contains(strings.Split(r.URL.Path, "/"), "..") {
		// Where the URL has a path, such a request could leave it.
		wire.WriteRefusal(w, r, cluster.Errorf(cluster.CodeUnknownOperation, "The path contains \"..\"."))
		return
	}
	body, err := transport.ReadBody(w, r)
	if err != nil {
		wire.WriteRefusal(w, r, err)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	// A tool that is configured for another Region means another installation. Any Region will do for
	// services that are not served: refuseService says that they are not.
	if _, err := h.verifier(r.Context()).Verify(r, access.NewScope(serviceOf(r, body), h.target.Region)); err != nil {
		wire.WriteRefusal(w, r, err)
		return
	}
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-r.Context().Done():
		return
	}
	if stsapi.IsForm(r) {
		h.sts.ServeHTTP(w, r)
		return
	}
	h.forwardRequest(w, r, body)
}

// verifier checks signatures by the key, and by the credentials that the proxy has or has lent.
func (h *Handler) verifier(ctx context.Context) *access.Verifier {
	list := []access.Credential{{AccessKeyID: h.key.ID, SecretAccessKey: h.key.Secret, Principal: own}}
	// Without credentials only the key is good; forwarding will say what is wrong with them.
	if keys, err := h.target.Credentials(ctx); err == nil {
		list = append(list, credentialOf(keys))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return access.NewVerifier(append(list, h.lent...), h.now)
}

// serviceOf returns the service that the request must be signed for. It is empty for forms of other
// services than STS.
func serviceOf(r *http.Request, body []byte) string {
	switch {
	case stsapi.IsForm(r):
		if form, err := url.ParseQuery(string(body)); err == nil && form.Get("Version") == stsapi.Version {
			return "sts"
		}
		return ""
	case r.Header.Get("X-Amz-Target") == "" && r.URL.Path == "/":
		return "ecs"
	}
	return access.ServiceOf(r)
}

// refuseService answers a request to a service that Berth does not have.
func refuseService(w http.ResponseWriter, r *http.Request) {
	wire.WriteRefusal(w, r, cluster.Errorf("InvalidAction",
		"berth proxy serves ECS, EKS and GetCallerIdentity of STS. "+
			"Call other services of AWS at their own endpoints: see --keep-credentials."))
}

// identifyCaller asks STS once whose credentials the proxy has.
func (h *Handler) identifyCaller(ctx context.Context) (stsapi.Identity, error) {
	h.mu.Lock()
	known := h.identity
	h.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	out, err := sts.NewFromConfig(h.target.ConfigFor("AWS_ENDPOINT_URL_STS")).GetCallerIdentity(ctx,
		&sts.GetCallerIdentityInput{})
	if err != nil {
		return stsapi.Identity{}, cluster.Errorf(wire.CodeUnavailable, "berth proxy cannot ask STS: %s", err)
	}
	found := stsapi.Identity{ARN: aws.ToString(out.Arn), UserID: aws.ToString(out.UserId),
		Account: aws.ToString(out.Account)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.identity = &found
	return found, nil
}
