package cloud

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"berth/tests/ministack"
)

// rootUser are the credentials of the emulator's root user.
var rootUser = aws.Credentials{AccessKeyID: ministack.AccessKey, SecretAccessKey: ministack.SecretKey}

// A caller makes the few calls that a deployment needs and that Berth itself does not make. It
// calls as the root user unless as is set.
type caller struct {
	endpoint string
	as       aws.Credentials
}

// A queryAPI is a service, with its version, that takes forms and answers in XML.
type queryAPI struct{ service, version string }

var (
	cloudFormation = queryAPI{"cloudformation", "2010-05-15"}
	iam            = queryAPI{"iam", "2010-05-08"}
)

// callQuery calls an action of such a service.
func (c caller) callQuery(ctx context.Context, a queryAPI, action string, in map[string]string, out any) error {
	form := url.Values{"Action": {action}, "Version": {a.version}}
	for k, v := range in {
		form.Set(k, v)
	}
	answer, err := c.sendRequest(ctx, request{
		service: a.service, method: http.MethodPost, path: "/", body: []byte(form.Encode()),
		contentType: "application/x-www-form-urlencoded",
	})
	if err != nil {
		return fmt.Errorf("%s: %w", action, err)
	}
	if out == nil {
		return nil
	}
	if err := xml.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("reading the answer of %s: %w", action, err)
	}
	return nil
}

// putObject stores an object in S3.
func (c caller) putObject(ctx context.Context, path string, body []byte) error {
	in := request{service: "s3", method: http.MethodPut, path: path, body: body,
		contentType: "application/octet-stream"}
	if _, err := c.sendRequest(ctx, in); err != nil {
		return fmt.Errorf("storing %s: %w", path, err)
	}
	return nil
}

// CallTable calls an operation of DynamoDB as the root user.
func (c *Cloud) CallTable(ctx context.Context, operation, body string) ([]byte, error) {
	answer, err := caller{endpoint: c.Endpoint}.sendRequest(ctx, request{
		service: "dynamodb", method: http.MethodPost, path: "/", body: []byte(body),
		contentType: "application/x-amz-json-1.0", target: "DynamoDB_20120810." + operation,
	})
	if err != nil {
		err = fmt.Errorf("%s: %w", operation, err)
	}
	return answer, err
}

// A request is a call before it is signed.
type request struct {
	service, method, path string
	body                  []byte
	contentType, target   string
}

func (c caller) sendRequest(ctx context.Context, in request) ([]byte, error) {
	r, err := c.newRequest(ctx, in)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("status %d: %s", resp.StatusCode, strings.TrimSpace(string(answer)))
	}
	return answer, err
}

// newRequest returns the signed call.
func (c caller) newRequest(ctx context.Context, in request) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, in.method, c.endpoint+in.path, bytes.NewReader(in.body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", in.contentType)
	if in.target != "" {
		r.Header.Set("X-Amz-Target", in.target)
	}
	as := c.as
	if as.AccessKeyID == "" {
		as = rootUser
	}
	return r, signRequest(r, as, in)
}

func signRequest(r *http.Request, as aws.Credentials, in request) error {
	sum := sha256.Sum256(in.body)
	hash := hex.EncodeToString(sum[:])
	r.Header.Set("X-Amz-Content-Sha256", hash)
	return v4.NewSigner().SignHTTP(r.Context(), as, r, hash, in.service, ministack.Region, time.Now())
}

// CallService calls a service of the emulator as the root user: with a form if the body begins with
// Action=, else with JSON.
func (c *Cloud) CallService(ctx context.Context, service string, in Request) ([]byte, error) {
	out := request{service: service, method: in.Method, path: in.Path, body: []byte(in.Body), target: in.Target,
		contentType: "application/x-amz-json-1.0"}
	if strings.HasPrefix(in.Body, "Action=") {
		out.contentType = "application/x-www-form-urlencoded"
	}
	answer, err := caller{endpoint: c.Endpoint}.sendRequest(ctx, out)
	if err != nil {
		err = fmt.Errorf("%s %s%s: %w", service, in.Target, in.Path, err)
	}
	return answer, err
}
