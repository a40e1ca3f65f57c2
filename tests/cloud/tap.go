package cloud

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A Call is one call to AWS by a function or by the simulated AWS, as its SDK sent it.
type Call struct {
	// AccessKey is the caller's. [Cloud.Caller] says which function that is.
	AccessKey string
	// Service is the name in the signature (dynamodb, sqs, ecs), Operation the operation of its
	// API.
	Service, Operation string
	// Target and ContentType are the headers that name the operation.
	Target, ContentType string
	Request             []byte
	At                  time.Time

	Status int
	Answer []byte
}

// A Tap stands between the functions and what they call, and between the simulated AWS and
// EventBridge. Its fields must be set before the tier starts. They are called from many goroutines.
type Tap struct {
	// Before may answer a call itself, with a status and a body of the service's protocol. Status 0
	// lets the call pass.
	Before func(Call) (status int, body string)
	// After sees each call with its answer.
	After func(Call)
	// Lose decides whether a call is executed and its answer lost: the caller gets a server error.
	Lose func(Call) bool

	servers []*http.Server
}

// ServeProxy starts an endpoint that forwards everything to another one.
func (t *Tap) ServeProxy(behind string) (endpoint string, err error) {
	return t.serveProxy(behind, nil)
}

// Stop ends the tap's endpoints.
func (t *Tap) Stop() error { return t.stopServing() }

// serveProxy starts an endpoint that forwards everything to another one, except for what refuse
// answers instead, with a status that is not 0.
func (t *Tap) serveProxy(behind string, refuse func(Call) (status int, body string)) (endpoint string, err error) {
	u, err := url.Parse(behind)
	if err != nil {
		return "", err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(u)
			r.Out.Host = r.In.Host // the host is signed
		},
		ModifyResponse: t.handleAnswer,
		ErrorLog:       log.New(io.Discard, "", 0), // errors of endpoints that end during a call
	}
	server := &http.Server{Handler: t.handleRequest(proxy, refuse), ReadHeaderTimeout: 10 * time.Second}
	t.servers = append(t.servers, server)
	go func() { _ = server.Serve(listener) }()
	return "http://" + listener.Addr().String(), nil
}

func (t *Tap) stopServing() error {
	var failed []error
	for _, s := range t.servers {
		failed = append(failed, s.Close())
	}
	return errors.Join(failed...)
}

var credential = regexp.MustCompile(`Credential=([^/]+)/[0-9]+/[^/]+/([^/]+)/`)

type callKey struct{}

func (t *Tap) handleRequest(next http.Handler, refuse func(Call) (status int, body string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		call := Call{Request: body, At: time.Now()}
		if m := credential.FindStringSubmatch(r.Header.Get("Authorization")); m != nil {
			call.AccessKey, call.Service = m[1], m[2]
		}
		call.Target, call.ContentType = r.Header.Get("X-Amz-Target"), r.Header.Get("Content-Type")
		call.Operation = operationOf(r, body)
		if refuse != nil {
			if status, answer := refuse(call); status != 0 {
				call.Status, call.Answer = status, []byte(answer)
				writeAnswer(w, call)
				if t.After != nil {
					t.After(call)
				}
				return
			}
		}
		if t.Before != nil {
			if status, answer := t.Before(call); status != 0 {
				call.Status, call.Answer = status, []byte(answer)
				writeAnswer(w, call)
				return
			}
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callKey{}, call)))
	})
}

func writeAnswer(w http.ResponseWriter, call Call) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(call.Status)
	_, _ = w.Write(call.Answer)
}

// Actions returns what IAM checks for the call. For a transaction these are the writes in it. To
// create an Auto Scaling group with tags, its creator must also be allowed to tag it: so EKS's own
// role for node groups is (AWS managed policy reference, AWSServiceRoleForAmazonEKSNodegroup).
func (c Call) Actions() []string {
	if c.Operation != "TransactWriteItems" {
		service := c.Service
		if service == "monitoring" { // the name that CloudWatch's calls are signed with
			service = "cloudwatch"
		}
		actions := []string{service + ":" + c.Operation}
		if c.Operation == "CreateAutoScalingGroup" && bytes.Contains(c.Request, []byte("Tags.member.1.Key=")) {
			actions = append(actions, "autoscaling:CreateOrUpdateTags")
		}
		return actions
	}
	var in struct {
		TransactItems []map[string]json.RawMessage
	}
	if err := json.Unmarshal(c.Request, &in); err != nil {
		return nil
	}
	var found []string
	for _, item := range in.TransactItems {
		for kind := range item {
			if action := "dynamodb:" + kind + "Item"; !slices.Contains(found, action) {
				found = append(found, action)
			}
		}
	}
	return found
}

// operationOf returns the operation of a request in any of the protocols: a header, the end of the
// path, or a field of a form names it.
func operationOf(r *http.Request, body []byte) string {
	if _, name, ok := strings.Cut(r.Header.Get("X-Amz-Target"), "."); ok {
		return name
	}
	if _, name, ok := strings.Cut(r.URL.Path, "/operation/"); ok {
		return name
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return ""
	}
	return form.Get("Action")
}

func (t *Tap) handleAnswer(resp *http.Response) error {
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	call, _ := resp.Request.Context().Value(callKey{}).(Call)
	call.Status, call.Answer = resp.StatusCode, body
	if t.Lose != nil && t.Lose(call) {
		resp.StatusCode, body = http.StatusInternalServerError, []byte("{}")
		resp.Header.Set("Content-Length", "2")
		resp.ContentLength = 2
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if t.After != nil {
		t.After(call)
	}
	return nil
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// logicalName returns the beginning of the logical ids of a function's resources: TaskStateChange
// for task-state-change.
func logicalName(folder string) string {
	var name strings.Builder
	for _, word := range strings.Split(folder, "-") {
		name.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return name.String()
}
