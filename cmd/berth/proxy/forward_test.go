package proxy

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"berth/cmd/berth/client"
)

// What only reads is repeated after a failure. Other requests are repeated only if they cannot have
// been carried out, or have a token by which Berth carries them out once.
func TestRepeats(t *testing.T) {
	const token, requestToken = `{"clientToken":"t"}`, `{"clientRequestToken":"t"}`
	for _, c := range []struct {
		operation, body string // of ECS, or method and path of EKS
		status          int
		repeats         bool
	}{
		{"DescribeServices", `{}`, 502, true}, {"ListTasks", `{}`, 503, true}, {"GetTaskProtection", `{}`, 504, true},
		{"ListTasks", `{}`, 429, true}, {"ListTasks", `{}`, 500, false}, {"ListTasks", `{}`, 403, false},
		{"UpdateService", `{}`, 429, true}, {"UpdateService", `{}`, 502, false}, {"UpdateService", token, 502, false},
		{"DeleteService", `{}`, 503, false}, {"StopTask", `{}`, 504, false},
		{"CreateService", `{}`, 502, false}, {"CreateService", token, 502, true}, {"RunTask", token, 504, true},
		{"StartTask", token, 503, true}, {"RunTask", `{"clientToken":""}`, 504, false}, {"RunTask", `{`, 504, false},
		{"GET /clusters/c/node-groups", "", 502, true}, {"DELETE /clusters/c/node-groups/g", "", 502, false},
		{"POST /clusters/c/node-groups", `{}`, 502, false}, {"POST /clusters/c/node-groups", requestToken, 502, true},
		{"POST /clusters/c/node-groups/g/update-version", requestToken, 504, true},
		{"POST /tags/arn", requestToken, 503, false}, {"DELETE /clusters/c/node-groups/g", "", 429, true},
	} {
		t.Run(fmt.Sprintf("%s %s %d", c.operation, c.body, c.status), func(t *testing.T) {
			server, h, f := newProxy(t, nil)
			f.answer = func(w http.ResponseWriter, r *http.Request) {
				if f.callCount() < 3 {
					fromLambda(c.status, "", "")(w, r)
					return
				}
				fromBerth(http.StatusOK, `{"done":true}`)(w, r)
			}
			resp, answer := callOperation(t, server.URL, h, c.operation, c.body)
			want := 1
			if c.repeats {
				want = 3
			}
			if n := f.callCount(); n != want || (resp.StatusCode == 200) != c.repeats {
				t.Errorf("%d calls, answer %s %s, want %d calls", n, resp.Status, answer, want)
			}
		})
	}
}

// callOperation calls an operation of ECS, or "METHOD /path" of EKS, with the proxy's key.
func callOperation(t *testing.T, endpoint string, h *Handler, operation, body string) (*http.Response, string) {
	t.Helper()
	if method, path, ok := strings.Cut(operation, " "); ok {
		return call(t, newEKS(t, endpoint, method, path, body), h.by("eks"))
	}
	return call(t, newECS(t, endpoint, operation, body), h.by("ecs"))
}

// No answer of the API is asked for again: clients have their own rules for them.
func TestAnswersOfTheAPIAreNotRepeated(t *testing.T) {
	for _, status := range []int{400, 403, 429, 500, 503} {
		server, h, f := newProxy(t, fromBerth(status, `{"__type":"X","message":"m"}`))
		resp, answer := callOperation(t, server.URL, h, "ListTasks", `{}`)
		if f.callCount() != 1 || resp.StatusCode != status || answer != `{"__type":"X","message":"m"}` {
			t.Errorf("%d calls, %s %s, want one and the answer as it is", f.callCount(), resp.Status, answer)
		}
	}
}

// Repetitions are bounded, and the last failure is reported in the client's protocol.
func TestRepetitionsEnd(t *testing.T) {
	server, h, f := newProxy(t, fromLambda(http.StatusBadGateway, "", "Internal Server Error"))
	resp, answer := callOperation(t, server.URL, h, "ListTasks", `{}`)
	if f.callCount() != maxAttempts || resp.StatusCode != 503 ||
		!strings.Contains(answer, "gave no answer (status 502)") {
		t.Errorf("%d calls, %s %s", f.callCount(), resp.Status, answer)
	}
}

// A broken connection may have carried out a write: it is not sent again.
func TestBrokenConnections(t *testing.T) {
	for operation, want := range map[string]int{"ListTasks": maxAttempts, "StopTask": 1} {
		server, h, f := newProxy(t, func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			c.Close()
		})
		resp, answer := callOperation(t, server.URL, h, operation, `{}`)
		if n := f.callCount(); n != want || resp.StatusCode != 503 ||
			!strings.Contains(answer, `"__type":"ServiceUnavailableException"`) {
			t.Errorf("%s: %d calls, %s %s, want %d", operation, n, resp.Status, answer, want)
		}
	}
}

// A request for which no connection could be made is sent again, also if it writes.
func TestConnectionsThatCannotBeMade(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	h := newHandlerFor(t, "http://"+address+"/lambda-url/id/")
	var dials atomic.Int32
	h.http.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, to string) (net.Conn, error) {
		dials.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, to)
	}
	server := httptest.NewServer(h)
	defer server.Close()
	resp, answer := callOperation(t, server.URL, h, "StopTask", `{}`)
	if dials.Load() != maxAttempts || resp.StatusCode != 503 || !strings.Contains(answer, "connection refused") {
		t.Errorf("%d dials, %s %s, want %d", dials.Load(), resp.Status, answer, maxAttempts)
	}
}

// useProcess gives the proxy the credentials that a shell script in the folder prints, by a profile
// of its own.
func useProcess(t *testing.T, h *Handler, dir, script string) {
	t.Helper()
	profile := "[profile p]\nregion = eu-west-1\ncredential_process = sh " + dir + "/script\n"
	for name, text := range map[string]string{"script": script, "config": profile} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(dir, "config"))
	target, err := client.FindTarget(t.Context(), client.Endpoint{Endpoint: h.target.URL.String(), Profile: "p"})
	if err != nil {
		t.Fatal(err)
	}
	h.target = target
}

// Credentials that AWS refuses as expired are looked for again, here from a profile's process.
func TestExpiredCredentialsAreRefreshed(t *testing.T) {
	server, h, f := newProxy(t, nil)
	dir := t.TempDir()
	script := "echo x >> " + dir + "/runs\n" + `echo "{\"Version\":1,\"AccessKeyId\":\"AKIA$(wc -l < ` + dir +
		`/runs | tr -d ' ')\",\"SecretAccessKey\":\"` + owner.SecretAccessKey + `\"}"` + "\n"
	useProcess(t, h, dir, script)
	f.mayBeSignedBy("AKIA1")
	f.answer = func(w http.ResponseWriter, r *http.Request) {
		if f.callCount() == 1 {
			f.mayBeSignedBy("AKIA2")
			fromLambda(http.StatusForbidden, "ExpiredTokenException", `{"message":"expired"}`)(w, r)
			return
		}
		fromBerth(http.StatusOK, `{}`)(w, r)
	}
	resp, answer := callOperation(t, server.URL, h, "StopTask", `{}`)
	if f.callCount() != 2 || resp.StatusCode != 200 {
		t.Errorf("%d calls, %s %s", f.callCount(), resp.Status, answer)
	}
}

// Errors of Lambda come in the form that clients read, and say what to do.
func TestErrorsOfLambda(t *testing.T) {
	for _, c := range []struct {
		status     int
		code, body string
		want       int
		wantCode   string
		says       string
	}{
		{403, "AccessDeniedException", `{"Message":"Forbidden"}`, 403, "AccessDeniedException", "CallerPolicyArn"},
		{403, "", `{"Message":"Forbidden"}`, 403, "AccessDeniedException", "lambda:InvokeFunctionUrl"},
		{403, "InvalidSignatureException", `{"message":"Signature expired"}`, 403, "InvalidSignatureException",
			"Signature expired"},
		{429, "", `{"Message":"slow"}`, 429, "ThrottlingException", "Rate exceeded"},
		{502, "", `Internal Server Error`, 503, "ServiceUnavailableException", "status 502"},
		{404, "", ``, 400, "ClientException", "status 404"},
	} {
		server, h, _ := newProxy(t, fromLambda(c.status, c.code, c.body))
		resp, answer := callOperation(t, server.URL, h, "POST /clusters/c/node-groups", `{}`)
		if resp.StatusCode != c.want || resp.Header.Get("X-Amzn-ErrorType") != c.wantCode ||
			!strings.Contains(answer, c.says) ||
			!strings.HasPrefix(answer, `{"code":"`+c.wantCode+`","message":"`) {
			t.Errorf("EKS: %+v becomes %s %v %s", c, resp.Status, resp.Header, answer)
		}
		_, answer = callOperation(t, server.URL, h, "StopTask", `{}`)
		if !strings.HasPrefix(answer, `{"__type":"`+c.wantCode+`","message":"`) || !strings.Contains(answer, c.says) {
			t.Errorf("ECS: %+v becomes %s", c, answer)
		}
	}
}

func TestChangeEnvironment(t *testing.T) {
	key := Key{ID: "BERTHX", Secret: "s"}
	settings := key.Environment("http://127.0.0.1:1", "eu-west-1")
	env := []string{"PATH=/bin", "AWS_PROFILE=prod", "AWS_SESSION_TOKEN=t", "AWS_ACCESS_KEY_ID=AKIA",
		"no_proxy=example.com",
		"AWS_ENDPOINT_URL_ECS=http://other", "AWS_REGION=us-east-1"}
	got := strings.Join(ChangeEnvironment(env, settings), " ")
	want := "PATH=/bin no_proxy=example.com,127.0.0.1,localhost AWS_ENDPOINT_URL_ECS=http://127.0.0.1:1 " +
		"AWS_ENDPOINT_URL_EKS=http://127.0.0.1:1 AWS_REGION=eu-west-1 AWS_DEFAULT_REGION=eu-west-1 " +
		"AWS_ENDPOINT_URL_STS=http://127.0.0.1:1 AWS_ACCESS_KEY_ID=BERTHX AWS_SECRET_ACCESS_KEY=s " +
		"NO_PROXY=127.0.0.1,localhost"
	if got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	var exports strings.Builder
	if err := PrintExports(&exports, env, settings); err != nil {
		t.Fatal(err)
	}
	if text := exports.String(); !strings.Contains(text, "export AWS_ACCESS_KEY_ID=BERTHX\n") ||
		!strings.Contains(text, "unset AWS_PROFILE\n") || strings.Contains(text, "AWS_DEFAULT_PROFILE") {
		t.Errorf("exports\n%s", text)
	}
	lent := strings.Join(ChangeEnvironment(env, LentEnvironment("http://127.0.0.1:1", "eu-west-1",
		aws.Credentials{AccessKeyID: "AKIA", SecretAccessKey: "x", SessionToken: "y"})), " ")
	if !strings.Contains(lent, "AWS_SESSION_TOKEN=y") || strings.Contains(lent, "_STS") ||
		strings.Contains(lent, "AWS_PROFILE") {
		t.Errorf("lent: %s", lent)
	}
}

// A Berth on this machine has the simulated AWS at its address, so every service is called there.
func TestLocalEnvironment(t *testing.T) {
	env := []string{"AWS_ENDPOINT_URL_AUTO_SCALING=http://other", "AWS_ENDPOINT_URL_EC2=http://other"}
	settings := LocalEnvironment("http://127.0.0.1:1", "eu-west-1", true)
	got := strings.Join(ChangeEnvironment(env, settings), " ")
	const want = "AWS_ENDPOINT_URL_ECS=http://127.0.0.1:1 AWS_ENDPOINT_URL_EKS=http://127.0.0.1:1 AWS_REGION=eu-west-1 " +
		"AWS_DEFAULT_REGION=eu-west-1 AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any AWS_ENDPOINT_URL=http://127.0.0.1:1 " +
		"NO_PROXY=127.0.0.1,localhost no_proxy=127.0.0.1,localhost"
	if got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	var exports strings.Builder
	if err := PrintExports(&exports, env, settings); err != nil {
		t.Fatal(err)
	}
	if text := exports.String(); !strings.Contains(text, "unset AWS_ENDPOINT_URL_EC2\n") {
		t.Errorf("exports\n%s", text)
	}
}

func TestKeysDiffer(t *testing.T) {
	a, b := NewKey(), NewKey()
	if a.ID == b.ID || a.Secret == b.Secret || len(a.ID) != 20 || len(a.Secret) != 40 {
		t.Errorf("keys %+v and %+v", a, b)
	}
}

// If credentials are no longer available, the client is told not to try again.
func TestCredentialsThatAreGone(t *testing.T) {
	server, h, f := newProxy(t, fromBerth(http.StatusOK, `{}`))
	dir := t.TempDir()
	script := `test -e ` + dir + `/gone && exit 1; echo '{"Version":1,"AccessKeyId":"A","SecretAccessKey":"s"}'` + "\n"
	useProcess(t, h, dir, script)
	if err := os.WriteFile(filepath.Join(dir, "gone"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h.target.RefreshCredentials()
	resp, answer := callOperation(t, server.URL, h, "ListTasks", `{}`)
	if f.callCount() != 0 || resp.StatusCode != 400 || !strings.Contains(answer, "ExpiredTokenException") ||
		!strings.Contains(answer, "aws sso login") {
		t.Errorf("%d calls, %s %s", f.callCount(), resp.Status, answer)
	}
}
