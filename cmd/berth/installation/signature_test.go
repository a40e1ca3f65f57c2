package installation_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"berth/cmd/berth/installation"
	"berth/shared/embedded"
	"berth/shared/sim/ec2"
	"berth/shared/wire/access"
)

// ask sends a request, signed for a service in us-east-1 or, as "ecs@eu-west-1", in another Region, to
// the server and returns the answer.
func ask(
	t *testing.T, server http.Handler, method, path, contentType, body, signedFor string,
) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(body))
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	if contentType == ecsJSON {
		r.Header.Set("X-Amz-Target", "AmazonEC2ContainerServiceV20141113.ListClusters")
	}
	if service, region, _ := strings.Cut(signedFor, "@"); service != "" {
		sum := sha256.Sum256([]byte(body))
		if err := v4.NewSigner().SignHTTP(t.Context(),
			aws.Credentials{AccessKeyID: "AKIAANN", SecretAccessKey: "secret"}, r,
			hex.EncodeToString(sum[:]), service, cmp.Or(region, "us-east-1"), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	w := httptest.NewRecorder()
	server.ServeHTTP(w, r)
	return w
}

const (
	ecsJSON  = "application/x-amz-json-1.1"
	form     = "application/x-www-form-urlencoded"
	identity = "Action=GetCallerIdentity&Version=2011-06-15"
	ann      = "arn:aws:iam::123456789012:user/ann"
)

// With credentials, a request must be signed for the API that it calls and for the installation's
// Region, and is refused in that API's own form. IAM is signed for us-east-1 in every Region.
func TestSignaturesOfTheEmbeddedTier(t *testing.T) {
	text := `{"credentials":[{"accessKeyId":"AKIAANN","secretAccessKey":"secret","principal":"` + ann + `","rights":["write"]}]}`
	verifier, policy, err := access.ReadCredentials([]byte(text), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	i, err := installation.Open(installation.Options{
		Loop: embedded.NewVirtualLoop(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)), Verifier: verifier,
		Access: policy,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.EnsureCluster(t.Context(), "home", 1,
		ec2.Machine{Type: "m5.large", Zones: []string{"us-east-1a"}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, path, contentType, body, service string
		status                                   int
		says                                     string
	}{
		{"POST", "/", ecsJSON, `{}`, "ecs", 200, "clusterArns"},
		{"POST", "/", ecsJSON, `{}`, "s3", 400,
			`{"__type":"InvalidSignatureException","message":"Credential should be scoped`},
		{"POST", "/", ecsJSON, `{}`, "ecs@eu-west-1", 400, `{"__type":"InvalidSignatureException",` +
			`"message":"Credential should be scoped to a valid region, not 'eu-west-1'`},
		{"GET", "/clusters/home/node-groups", "", "", "eks@eu-west-1", 403,
			`{"code":"InvalidSignatureException",` +
				`"message":"Credential should be scoped to a valid region, not 'eu-west-1'`},
		{"POST", "/", form, "Action=DescribeAutoScalingGroups&Version=2011-01-01", "autoscaling@eu-west-1", 200,
			"AutoScalingGroups"},
		{"POST", "/", ecsJSON, `{}`, "", 400, `{"__type":"MissingAuthenticationTokenException","message":"Missing`},
		{"GET", "/clusters/home/node-groups", "", "", "eks", 200, "nodegroups"},
		{"GET", "/clusters/home/node-groups", "", "", "ecs", 403,
			`{"code":"InvalidSignatureException","message":"Credential should be scoped`},
		{"GET", "/clusters/home/node-groups", "", "", "", 403,
			`{"code":"MissingAuthenticationTokenException","message":"Missing Authentication Token"}`},
		{"POST", "/", form, identity, "sts", 200, "<Arn>" + ann + "</Arn>"},
		{"POST", "/", form, identity, "", 403, "<Code>MissingAuthenticationToken</Code>"},
		{"POST", "/", form, "Action=AssumeRole&Version=2011-06-15", "sts", 400, "<Code>InvalidAction</Code>"},
		{"POST", "/", form, "Action=DescribeAutoScalingGroups&Version=2011-01-01", "autoscaling", 200,
			"AutoScalingGroups"},
	} {
		w := ask(t, i.Server, c.method, c.path, c.contentType, c.body, c.service)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s %s %s signed for %q: %d %s, want %d %s", c.method, c.path, c.body, c.service, w.Code, w.Body,
				c.status,
				c.says)
		}
	}
}

// Where nobody checks, everyone is the root user.
func TestIdentityOfTheEmbeddedTier(t *testing.T) {
	i := scaled(t, nil)
	w := ask(t, i.Server, "POST", "/", form, identity, "sts")
	for _, part := range []string{`xmlns="https://sts.amazonaws.com/doc/2011-06-15/"`,
		"<Arn>arn:aws:iam::123456789012:root</Arn>",
		"<UserId>123456789012</UserId>", "<Account>123456789012</Account>", "<RequestId>"} {
		if !strings.Contains(w.Body.String(), part) {
			t.Errorf("%d %s, want %s", w.Code, w.Body, part)
		}
	}
}
