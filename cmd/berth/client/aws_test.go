package client

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/smithy-go"
)

// newTestAWS returns a caller of the endpoint whose clock is off.
func newTestAWS(endpoint string, off time.Duration) *AWS {
	return NewAWS(aws.Config{Region: "eu-west-1", BaseEndpoint: &endpoint,
		Credentials: credentials.NewStaticCredentialsProvider("AKIAANN", "secret", "")},
		func() time.Time { return time.Now().Add(off) })
}

// A service refuses requests whose time is wrong by more than five minutes. The caller learns AWS's
// time by that, and is then understood.
func TestCallsAreSignedWithTheTimeOfAWS(t *testing.T) {
	setCredentials(t, "", "")
	refused := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
		if err != nil || time.Since(at).Abs() > 5*time.Minute {
			refused++
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"__type": "com.amazon#RequestTimeTooSkewed", "message": "Signature expired"}`)
			return
		}
		_, _ = io.WriteString(w, "{}")
	}))
	defer server.Close()
	for _, off := range []time.Duration{0, 10 * time.Minute, -time.Hour} {
		refused = 0
		a := newTestAWS(server.URL, off)
		if _, known := a.Offset(); known {
			t.Error("the offset is known before the first answer")
		}
		for range 3 {
			if _, err := a.CallService(t.Context(), Call{Service: ec2}); err != nil {
				t.Errorf("%s off: %v", off, err)
			}
		}
		if want := min(1, int(off.Abs()/time.Minute)); refused != want {
			t.Errorf("%s off: %d calls are refused, want %d", off, refused, want)
		}
		offset, known := a.Offset()
		if !known || (offset+off).Abs() > 2*time.Second || time.Until(a.Now()).Abs() > 2*time.Second {
			t.Errorf("%s off: AWS is %s ahead (%v), and its time is %s", off, offset, known, a.Now())
		}
	}
}

// A throttled call is repeated, another refusal is not. The errors of JSON, of forms and of EC2
// have a code and a message.
func TestRefusals(t *testing.T) {
	setCredentials(t, "", "")
	answers := []string{}
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		if answers[0] == "" {
			_, _ = io.WriteString(w, "{}")
			return
		}
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, answers[0])
		answers = answers[1:]
	}))
	defer server.Close()
	a := newTestAWS(server.URL, 0)
	for _, c := range []struct {
		answers []string
		calls   int
		want    string
	}{
		{[]string{`{"__type": "a#ThrottlingException"}`, `{"__type": "ThrottlingException"}`, ""}, 3, ""},
		{[]string{`{"__type": "AccessDenied", "Message": "no"}`}, 1, "AccessDenied: no"},
		{[]string{`<ErrorResponse><Error><Code>NoSuchEntity</Code><Message>none</Message></Error></ErrorResponse>`}, 1,
			"NoSuchEntity: none"},
		{[]string{`<Response><Errors><Error><Code>InvalidGroup</Code><Message>m</Message></Error></Errors></Response>`},
			1,
			"InvalidGroup: m"},
		{[]string{"what?"}, 1, "ec2 answers with status 400"},
	} {
		answers, calls = c.answers, 0
		_, err := a.CallService(t.Context(), Call{Service: ec2})
		got := fmt.Sprint(err)
		var refusal smithy.APIError
		if errors.As(err, &refusal) {
			got = refusal.ErrorCode() + ": " + refusal.ErrorMessage()
		}
		if c.want == "" && err != nil || c.want != "" && got != c.want || calls != c.calls {
			t.Errorf("%q: %q after %d calls, want %q after %d", c.answers, got, calls, c.want, c.calls)
		}
	}
}

// Services are at AWS's endpoints of the partition, IAM at one for all Regions, or where a variable
// or the configuration says.
func TestEndpointsOfServices(t *testing.T) {
	setCredentials(t, "", "")
	iam := Service{Signing: "iam", Host: "iam", Variable: "IAM"}
	for _, c := range []struct {
		region  string
		service Service
		want    string
	}{
		{"eu-west-1", ec2, "https://ec2.eu-west-1.amazonaws.com/ eu-west-1"},
		{"cn-north-1", ec2, "https://ec2.cn-north-1.amazonaws.com.cn/ cn-north-1"},
		{"us-gov-east-1", ec2, "https://ec2.us-gov-east-1.amazonaws.com/ us-gov-east-1"},
		{"eu-west-1", iam, "https://iam.amazonaws.com/ us-east-1"},
		{"cn-northwest-1", iam, "https://iam.cn-north-1.amazonaws.com.cn/ cn-north-1"},
		{"us-gov-east-1", iam, "https://iam.us-gov.amazonaws.com/ us-gov-west-1"},
	} {
		endpoint, region := NewAWS(aws.Config{Region: c.region}, time.Now).endpointOf(c.service)
		if got := endpoint + " " + region; got != c.want {
			t.Errorf("%s in %s: %s, want %s", c.service.Host, c.region, got, c.want)
		}
	}
	a := newTestAWS("http://127.0.0.1:1", 0)
	for _, c := range [][2]string{{"", "http://127.0.0.1:1/"}, {"AWS_ENDPOINT_URL", "http://127.0.0.1:2/"},
		{"AWS_ENDPOINT_URL_EC2", "http://127.0.0.1:3/"}} {
		if c[0] != "" {
			t.Setenv(c[0], strings.TrimSuffix(c[1], "/"))
		}
		if got := a.EndpointOf(ec2); got != c[1] {
			t.Errorf("with %s: %s, want %s", c[0], got, c[1])
		}
	}
}

// Forms are answered in XML.
func TestCallQuery(t *testing.T) {
	setCredentials(t, "", "")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("Action") != "Describe" || !strings.Contains(r.Header.Get("Authorization"), "/eu-west-1/ec2/") {
			t.Errorf("the call is %v, signed %s", r.Form, r.Header.Get("Authorization"))
		}
		_, _ = io.WriteString(w, "<Answer><Name>x</Name></Answer>")
	}))
	defer server.Close()
	var out struct{ Name string }
	err := newTestAWS(server.URL, 0).CallQuery(t.Context(), ec2, url.Values{"Action": {"Describe"}}, &out)
	if err != nil || out.Name != "x" {
		t.Errorf("got %+v, %v", out, err)
	}
}
