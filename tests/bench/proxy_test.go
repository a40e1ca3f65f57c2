package bench

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"berth/cmd/berth/client"
	"berth/cmd/berth/proxy"
	"berth/shared/wire/access"
	"berth/shared/wire/transport"
)

// BenchmarkProxy measures what `berth proxy` adds to a request: the same signed request, sent to a
// function URL on this machine directly and through the proxy by turns.
func BenchmarkProxy(b *testing.B) {
	owner := aws.Credentials{AccessKeyID: "AKIAOWNER", SecretAccessKey: "secret"}
	for name, v := range map[string]string{
		"AWS_ACCESS_KEY_ID": owner.AccessKeyID, "AWS_SECRET_ACCESS_KEY": owner.SecretAccessKey, "AWS_SESSION_TOKEN": "",
		"AWS_PROFILE": "", "AWS_REGION": "us-east-1", "AWS_CONFIG_FILE": os.DevNull,
	} {
		b.Setenv(name, v)
	}
	checks := access.NewVerifier([]access.Credential{{AccessKeyID: owner.AccessKeyID,
		SecretAccessKey: owner.SecretAccessKey, Principal: "owner"}}, time.Now)
	answer := []byte(`{"services":["` + strings.Repeat("x", 4096) + `"]}`)
	functionURL := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := checks.Verify(r, access.Scope{Service: "lambda"}); err != nil {
			b.Error(err)
		}
		transport.WriteAnswer(w, "application/x-amz-json-1.1", http.StatusOK, answer)
	}))
	defer functionURL.Close()
	target, err := client.FindTarget(b.Context(), client.Endpoint{Endpoint: functionURL.URL + "/lambda-url/id/"})
	if err != nil {
		b.Fatal(err)
	}
	key := proxy.NewKey()
	server := httptest.NewServer(proxy.NewHandler(target, key))
	defer server.Close()
	keys := aws.Credentials{AccessKeyID: key.ID, SecretAccessKey: key.Secret}
	var direct, proxied []time.Duration
	for b.Loop() {
		direct = append(direct, timeRequest(b, functionURL.URL+"/lambda-url/id/", "lambda", owner))
		proxied = append(proxied, timeRequest(b, server.URL+"/", "ecs", keys))
	}
	slices.Sort(direct)
	slices.Sort(proxied)
	d, p := direct[len(direct)/2], proxied[len(proxied)/2]
	b.ReportMetric(inMilliseconds(d), "direct-p50-ms")
	b.ReportMetric(inMilliseconds(p), "proxy-p50-ms")
	b.ReportMetric(inMilliseconds(p-d), "added-p50-ms")
	b.ReportMetric(inMilliseconds(proxied[len(proxied)*99/100]-direct[len(direct)*99/100]), "added-p99-ms")
	b.ReportMetric(float64(p)/float64(d), "ratio")
}

func inMilliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// timeRequest signs and sends a request, and returns how long that took.
func timeRequest(b *testing.B, endpoint, service string, keys aws.Credentials) time.Duration {
	b.Helper()
	began := time.Now()
	body := []byte(`{"cluster":"default","services":["web"],"include":["TAGS"]}`)
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, endpoint, bytes.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	r.Header.Set("X-Amz-Target", "AmazonEC2ContainerServiceV20141113.DescribeServices")
	sum := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(b.Context(), keys, r, hex.EncodeToString(sum[:]), service, "us-east-1",
		time.Now()); err != nil {
		b.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		b.Fatalf("%s: %s, %v", endpoint, resp.Status, err)
	}
	return time.Since(began)
}
