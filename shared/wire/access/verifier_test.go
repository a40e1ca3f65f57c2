package access

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"berth/shared/cluster"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

const listed = `{"credentials": [
	{"accessKeyId": "AKIAANN", "secretAccessKey": "ann's secret", "principal": "arn:aws:iam::123456789012:user/ann", "rights": ["write"]},
	{"accessKeyId": "AKIAOPS", "secretAccessKey": "ops' secret", "principal": "arn:aws:iam::123456789012:user/ops", "rights": ["manage node groups"]}]}`

func signed(t *testing.T, key, secret, token string, at time.Time, change func(*http.Request)) *http.Request {
	t.Helper()
	return signedFor(t, "ecs", key, secret, token, at, change)
}

func signedFor(
	t *testing.T, service, key, secret, token string, at time.Time, change func(*http.Request),
) *http.Request {
	t.Helper()
	const body = `{"cluster":"prod"}`
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:5252/clusters/a%2Fb?x=1&y=%20z",
		strings.NewReader(body))
	r.Header.Set("X-Amz-Target", "AmazonEC2ContainerServiceV20141113.ListTasks")
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	sum := sha256.Sum256([]byte(body))
	err := v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: key, SecretAccessKey: secret,
		SessionToken: token}, r, hex.EncodeToString(sum[:]), service, "us-east-1", at)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Not-Signed", "may change on the way")
	if change != nil {
		change(r)
	}
	return r
}

// unsignedTarget returns the request as it is without a target, whose signature does not cover one,
// and with a target.
func unsignedTarget(r *http.Request) *http.Request {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	for _, name := range []string{"X-Amz-Target", "Authorization", "X-Amz-Date"} {
		r.Header.Del(name)
	}
	sum := sha256.Sum256(body)
	_ = v4.NewSigner().SignHTTP(r.Context(), aws.Credentials{AccessKeyID: "AKIAANN", SecretAccessKey: "ann's secret"},
		r,
		hex.EncodeToString(sum[:]), "ecs", "us-east-1", noon)
	r.Header.Set("X-Amz-Target", "AmazonEC2ContainerServiceV20141113.DeleteCluster")
	return r
}

func TestOnlyValidSignaturesPass(t *testing.T) {
	v, p, err := ReadCredentials([]byte(listed), func() time.Time { return noon })
	if err != nil {
		t.Fatal(err)
	}
	const secret = "ann's secret"
	for name, c := range map[string]struct {
		request *http.Request
		code    cluster.Code // empty where ann is let in
	}{
		"Signed":       {signed(t, "AKIAANN", secret, "", noon.Add(-10*time.Minute), nil), ""},
		"WithAToken":   {signed(t, "AKIAANN", secret, "session", noon, nil), ""},
		"WrongSecret":  {signed(t, "AKIAANN", "guess", "", noon, nil), "InvalidSignatureException"},
		"UnknownKey":   {signed(t, "AKIAEVE", secret, "", noon, nil), "UnrecognizedClientException"},
		"KeyOfAnother": {signed(t, "AKIAOPS", secret, "", noon, nil), "InvalidSignatureException"},
		"TooOld":       {signed(t, "AKIAANN", secret, "", noon.Add(-16*time.Minute), nil), "InvalidSignatureException"},
		"OfTheFuture":  {signed(t, "AKIAANN", secret, "", noon.Add(16*time.Minute), nil), "InvalidSignatureException"},
		"Unsigned": {signed(t, "AKIAANN", secret, "", noon,
			func(r *http.Request) { r.Header.Del("Authorization") }), "MissingAuthenticationTokenException"},
		"OtherBody": {signed(t, "AKIAANN", secret, "", noon,
			func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(`{}`)) }), "InvalidSignatureException"},
		"OtherPath": {signed(t, "AKIAANN", secret, "", noon,
			func(r *http.Request) { r.URL.Path, r.URL.RawPath = "/clusters/c", "" }), "InvalidSignatureException"},
		"OtherQuery": {signed(t, "AKIAANN", secret, "", noon, func(r *http.Request) { r.URL.RawQuery = "x=2" }),
			"InvalidSignatureException"},
		"OtherMethod": {signed(t, "AKIAANN", secret, "", noon, func(r *http.Request) { r.Method = http.MethodDelete }),
			"InvalidSignatureException"},
		"OtherHeader": {signed(t, "AKIAANN", secret, "", noon,
			func(r *http.Request) { r.Header.Set("X-Amz-Target", "x") }), "InvalidSignatureException"},
		"HeaderAdded": {signed(t, "AKIAANN", secret, "", noon,
			func(r *http.Request) { r.Header.Set("X-Amz-Added", "x") }), "InvalidSignatureException"},
		"OtherHost": {signed(t, "AKIAANN", secret, "", noon, func(r *http.Request) { r.Host = "localhost" }),
			"InvalidSignatureException"},
		"OtherTime": {signed(t, "AKIAANN", secret, "", noon,
			func(r *http.Request) { r.Header.Set("X-Amz-Date", "20261122T115900Z") }), "InvalidSignatureException"},
		"NothingSigned": {signed(t, "AKIAANN", secret, "", noon, func(r *http.Request) {
			r.Header.Set("Authorization",
				"AWS4-HMAC-SHA256 Credential=AKIAANN/20261122/us-east-1/ecs/aws4_request, SignedHeaders=x, Signature=00")
		}), "InvalidSignatureException"},
		"ForAnotherService": {signedFor(t, "s3", "AKIAANN", secret, "", noon, nil), "InvalidSignatureException"},
		"ForLambda":         {signedFor(t, "lambda", "AKIAANN", secret, "", noon, nil), "InvalidSignatureException"},
		"UnsignedTarget":    {unsignedTarget(signed(t, "AKIAANN", secret, "", noon, nil)), "InvalidSignatureException"},
		"Malformed": {signed(t, "AKIAANN", secret, "", noon,
			func(r *http.Request) { r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIAANN") }),
			"MissingAuthenticationTokenException"},
	} {
		t.Run(name, func(t *testing.T) {
			reached := ""
			w := httptest.NewRecorder()
			v.Handler("us-east-1", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				reached = r.Header.Get("principal") + " " + string(body)
			}), func(r *http.Request, arn string) *http.Request {
				r.Header.Set("principal", arn)
				return r
			}, func(w http.ResponseWriter, _ *http.Request, err error) {
				http.Error(w, err.Error(), http.StatusForbidden)
			}).ServeHTTP(w, c.request)
			switch {
			case c.code == "" && reached != `arn:aws:iam::123456789012:user/ann {"cluster":"prod"}`:
				t.Errorf("reached with %q, answer %d %s", reached, w.Code, w.Body)
			case c.code != "" && (reached != "" || w.Code != http.StatusForbidden ||
				!strings.Contains(w.Body.String(), string(c.code))):
				t.Errorf("reached with %q, answer %d %s, want 403 %s", reached, w.Code, w.Body, c.code)
			}
		})
	}
	for principal, want := range map[string][2]bool{"arn:aws:iam::123456789012:user/ann": {true, false},
		"arn:aws:iam::123456789012:user/ops": {false, true}} {
		if got := [2]bool{p.Check(principal, "CreateService") == nil,
			p.Check(principal, "CreateNodegroup") == nil}; got != want {
			t.Errorf("%s may write and manage node groups: %v, want %v", principal, got, want)
		}
	}
}

func TestCredentialsThatCannotBeRead(t *testing.T) {
	for text, part := range map[string]string{
		``: "reading credentials", `{}`: "there are none", `{"credentials":[{"accessKeyId":"a"}]}`: "entry 1 needs",
		`{"credentials":[{"accessKeyId":"a","secretAccessKey":"b","principal":"ann"}]}`:                                                                 "an ARN",
		`{"credentials":[{"accessKeyId":"a","secretAccessKey":"b","principal":"arn:x","rights":["all"]}]}`:                                              `"all" of a is no right`,
		`{"credentials":[{"accessKeyId":"a","secretAccessKey":"b","principal":"arn:x","role":"x"}]}`:                                                    "unknown field",
		`{"credentials":[{"accessKeyId":"a","secretAccessKey":"b","principal":"arn:x"},{"accessKeyId":"a","secretAccessKey":"b","principal":"arn:x"}]}`: "twice",
	} {
		if _, _, err := ReadCredentials([]byte(text), time.Now); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v, want an error with %q", text, err, part)
		}
	}
}
