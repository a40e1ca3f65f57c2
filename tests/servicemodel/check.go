package servicemodel

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
)

const ecsTarget = "AmazonEC2ContainerServiceV20141113."

// commonErrors are the errors that every operation of AWS may answer with, which models do not
// list.
var commonErrors = []string{
	"AccessDeniedException", "InternalFailure", "RequestEntityTooLargeException", "SerializationException",
	"ThrottlingException", "UnknownOperationException", "MissingAuthenticationTokenException",
	"MissingAuthenticationToken", "IncompleteSignature", "IncompleteSignatureException", "InvalidSignatureException",
	"SignatureDoesNotMatch", "UnrecognizedClientException", "InvalidClientTokenId", "ExpiredTokenException",
}

// unsupported is the error by which Berth refuses what it does not serve. Any operation of the ECS
// API may answer with it, though some models do not list it: other codes would say that the caller
// has made a mistake.
const unsupported = "UnsupportedFeatureException"

// ownMembers are members that Berth takes beyond the models, by operation.
var ownMembers = map[string][]string{"UpdateNodegroupVersion": {"forceProtected"}}

// Check returns a handler that passes each request on to next and checks it and its answer. What is
// wrong becomes an error of t, so next must not be called after t has ended. A nil Models checks
// nothing.
func (m *Models) Check(t testing.TB, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e, ok := newExchange(t, r) // a proxy needs that without models, too
		if m == nil || !ok {
			next.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		e.Status, e.Answer = answer.Code, answer.Body.Bytes()
		m.report(t, e, answer.Header())
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(e.Status)
		_, _ = w.Write(e.Answer) // the client may have gone
	})
}

// A Client sends HTTP requests, as the SDK's clients want it.
type Client interface {
	Do(r *http.Request) (*http.Response, error)
}

// Client returns a client that sends requests through next and checks them and their answers as
// [Models.Check] does.
func (m *Models) Client(t testing.TB, next Client) Client {
	if m == nil {
		return next
	}
	return checkingClient{t, m, next}
}

type checkingClient struct {
	t      testing.TB
	models *Models
	next   Client
}

// Do sends a request and checks it and its answer.
func (c checkingClient) Do(r *http.Request) (*http.Response, error) {
	e, check := newExchange(c.t, r)
	answer, err := c.next.Do(r)
	if err != nil || !check {
		return answer, err
	}
	e.Status = answer.StatusCode
	e.Answer, err = io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil {
		return nil, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(e.Answer))
	c.models.report(c.t, e, answer.Header)
	return answer, nil
}

// Proxy returns the address of a server on loopback that passes requests on to an endpoint and
// checks them and their answers as [Models.Check] does. It ends with t.
func (m *Models) Proxy(t testing.TB, endpoint string) string {
	t.Helper()
	to, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(m.Check(t, httputil.NewSingleHostReverseProxy(to)))
	t.Cleanup(server.Close)
	return server.URL
}

// newExchange reads a request, whose body can be read again. It reports whether the request is one
// of the two APIs. A proxy needs the bodies of all others in memory, too: the server closes a body
// when the answer begins, and if the proxy still looks for its end then, it ends the connection.
func newExchange(t testing.TB, r *http.Request) (Exchange, bool) {
	e := Exchange{Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.Query(),
		Target: r.Header.Get("X-Amz-Target")}
	eks := strings.HasPrefix(e.Path, "/clusters") || strings.HasPrefix(e.Path, "/tags/")
	if r.Body != nil {
		var err error
		if e.Body, err = io.ReadAll(r.Body); err != nil {
			t.Errorf("reading a request: %v", err)
		}
		r.Body.Close()
		r.Body = io.NopCloser(bytes.NewReader(e.Body))
	}
	return e, eks || strings.HasPrefix(e.Target, ecsTarget)
}

// report makes what is wrong errors of the test.
func (m *Models) report(t testing.TB, e Exchange, header http.Header) {
	e.ErrorType = header.Get("X-Amzn-ErrorType")
	for _, problem := range m.CheckExchange(e) {
		t.Errorf("%s %s %s: %s\nrequest: %.500s\nanswer: %.500s", e.Method, e.Path, e.Target, problem, e.Body, e.Answer)
	}
}

// An Exchange is one request of either API and its answer.
type Exchange struct {
	Method, Path string
	Query        url.Values
	Target       string // X-Amz-Target
	Body         []byte
	Status       int
	ErrorType    string // X-Amzn-ErrorType
	Answer       []byte
}

// CheckOperation is [Models.CheckExchange] for an operation of the ECS API, by its name. A nil
// Models finds nothing.
func (m *Models) CheckOperation(op string, body []byte, status int, answer []byte) []string {
	if m == nil {
		return nil
	}
	return m.ECS.checkECS(op, Exchange{Body: body, Status: status, Answer: answer})
}

// CheckExchange returns what is wrong with a request or its answer. Requests that were refused may
// be as wrong as they like.
func (m *Models) CheckExchange(e Exchange) []string {
	op, isECS := strings.CutPrefix(e.Target, ecsTarget)
	switch {
	case isECS && e.Path == "/":
		return m.ECS.checkECS(op, e)
	case e.Path == "/" || e.Target != "":
		return nil // an operation of Berth's own, or of another service
	}
	return m.EKS.checkEKS(e)
}

func (m *Model) checkECS(op string, e Exchange) []string {
	operation, known := m.Operations[op]
	if e.Status == http.StatusOK {
		if !known {
			return []string{op + " is no operation of the model"}
		}
		return append(m.checkInput(op, e.Body), m.CheckBody(operation.Output.Shape, e.Answer)...)
	}
	var answer struct {
		Type    string  `json:"__type"`
		Message *string `json:"message"`
	}
	if err := json.Unmarshal(e.Answer, &answer); err != nil {
		return []string{"the error is no JSON: " + err.Error()}
	}
	code := answer.Type[strings.LastIndexByte(answer.Type, '#')+1:]
	if answer.Message == nil {
		return []string{"the error has no message"}
	}
	return m.checkError(op, code, 0)
}

// checkInput checks the body of a request that was carried out.
func (m *Model) checkInput(op string, body []byte) []string {
	return slices.DeleteFunc(m.CheckBody(m.Operations[op].Input.Shape, body), func(problem string) bool {
		return slices.ContainsFunc(ownMembers[op], func(own string) bool {
			return problem == ": "+own+" is not in the model"
		})
	})
}

func (m *Model) checkEKS(e Exchange) []string {
	op := m.FindOperation(e.Method, e.Path)
	if e.Status != http.StatusOK {
		return m.checkError(op, e.ErrorType, e.Status)
	}
	operation, known := m.Operations[op]
	if !known {
		return []string{"the path is no operation of the model"}
	}
	problems := m.CheckBody(operation.Output.Shape, e.Answer)
	if operation.Input.Shape != "" {
		problems = append(problems, m.checkInput(op, e.Body)...)
	}
	input := m.Shapes[operation.Input.Shape]
	for name := range e.Query {
		if !slices.ContainsFunc(queryMembers(input), func(n string) bool { return n == name }) {
			problems = append(problems, "the query's "+name+" is not in the model")
		}
	}
	return problems
}

func queryMembers(s Shape) (names []string) {
	for _, member := range s.Members {
		if member.Location == "querystring" {
			names = append(names, member.LocationName)
		}
	}
	return names
}

// checkError checks that a client knows the error's code from the operation. In a REST API it goes
// with a status.
func (m *Model) checkError(op, code string, status int) []string {
	if slices.Contains(commonErrors, code) {
		return nil
	}
	s, known := m.Shapes[code]
	switch {
	case !known || !s.Exception:
		return []string{"the error code " + code + " is not in the model"}
	case status != 0 && s.Error.HTTPStatusCode != 0 && s.Error.HTTPStatusCode != status:
		return []string{"the error " + code + " has another HTTP status in the model"}
	}
	listed := m.Operations[op].Errors
	isListed := slices.ContainsFunc(listed, func(r Ref) bool { return r.Shape == code })
	if len(listed) > 0 && !isListed && code != unsupported {
		return []string{"the error " + code + " is none of " + op + " in the model"}
	}
	return nil
}

// FindOperation returns the operation of a REST API with a method and an escaped path, empty if
// there is none.
func (m *Model) FindOperation(method, path string) string {
	all := strings.Split(path, "/")
	for name, op := range m.Operations {
		parts := all
		pattern := strings.Split(op.HTTP.RequestURI, "/")
		// An ARN's slashes may come unescaped.
		if n := len(pattern); n <= len(parts) && pattern[n-1] == "{resourceArn}" {
			parts = append(parts[:n-1:n-1], strings.Join(parts[n-1:], "/"))
		}
		same := op.HTTP.Method == method && len(pattern) == len(parts)
		for i := 0; same && i < len(parts); i++ {
			same = pattern[i] == parts[i] || strings.HasPrefix(pattern[i], "{") && parts[i] != ""
		}
		if same {
			return name
		}
	}
	return ""
}
