package client

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"berth/shared/awsapi"
	"berth/shared/wire/transport"
)

// SignRequest signs a request to the target with the given body: for lambda if a function URL
// receives it, otherwise for the named service. It signs the host, the content type and the headers
// of AWS; all others may change on the way. Without credentials the request stays as it is.
func (t *Target) SignRequest(ctx context.Context, r *http.Request, body []byte, service string) error {
	if t.credentials == nil {
		return nil
	}
	keys, err := t.credentials.Retrieve(ctx)
	if err != nil {
		return credentialsError(err)
	}
	if t.IsFunctionURL {
		service = "lambda"
	}
	// The signer sorts the query of its request. The query that is sent stays as it is.
	u := *r.URL
	signed := &http.Request{Method: r.Method, URL: &u, Host: r.Host, Header: http.Header{},
		ContentLength: int64(len(body))}
	for name, values := range r.Header {
		if name == "Content-Type" || strings.HasPrefix(name, "X-Amz-") {
			signed.Header[name] = values
		}
	}
	sum := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(ctx, keys, signed, hex.EncodeToString(sum[:]), service, t.Region,
		time.Now()); err != nil {
		return fmt.Errorf("signing the request: %w", err)
	}
	for _, name := range []string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token"} {
		if v := signed.Header.Get(name); v != "" {
			r.Header.Set(name, v)
		}
	}
	return nil
}

// Credentials returns what requests are signed with now.
func (t *Target) Credentials(ctx context.Context) (aws.Credentials, error) {
	if t.credentials == nil {
		return aws.Credentials{}, t.withoutCredentials
	}
	keys, err := t.credentials.Retrieve(ctx)
	if err != nil {
		return keys, credentialsError(err)
	}
	return keys, nil
}

// RefreshCredentials makes the next request look for new credentials, because AWS has refused those
// of the last as expired.
func (t *Target) RefreshCredentials() {
	if cache, ok := t.credentials.(*aws.CredentialsCache); ok {
		cache.Invalidate()
	}
}

// ConfigFor returns how another service of AWS is called, with the same credentials. Beside an API
// on this machine, its endpoint comes from the variable, from AWS_ENDPOINT_URL, or is the API's
// own.
func (t *Target) ConfigFor(variable string) aws.Config {
	conf := t.config.Copy()
	conf.Region = cmp.Or(conf.Region, t.Region)
	if t.credentials == nil {
		// The simulated AWS does not check signatures, but they name the service that is called.
		conf.Credentials = credentials.NewStaticCredentialsProvider("any", "any", "")
	}
	if t.IsLocal() {
		base := cmp.Or(os.Getenv(variable), os.Getenv("AWS_ENDPOINT_URL"), t.URL.String())
		conf.BaseEndpoint, conf.HTTPClient = &base, awsapi.HTTP{}
	}
	return conf
}

// IsFromBerth reports whether Berth itself has answered, and not Lambda in front of it.
func IsFromBerth(h http.Header) bool { return h.Get("X-Content-Type-Options") == transport.NoSniff }

// ExplainLambda returns the code and the message of an error that Lambda gave instead of Berth, and
// what to do.
func (t *Target) ExplainLambda(status int, h http.Header, answer []byte) (code, message string) {
	var e struct{ Message string }
	_ = json.Unmarshal(answer, &e) // text, or empty, if it is not JSON
	code = strings.TrimSpace(strings.Split(h.Get("X-Amzn-ErrorType"), ":")[0])
	switch {
	case status == http.StatusForbidden && (code == "" || code == "AccessDeniedException"):
		policy := "the policy of the stack's output CallerPolicyArn"
		if t.PolicyARN != "" {
			policy = "the policy " + t.PolicyARN
		}
		return "AccessDeniedException",
			"The function URL refuses these AWS credentials. Their user or role needs " + policy +
				", which allows lambda:InvokeFunctionUrl, and lambda:InvokeFunction through the URL. AWS says: " +
				cmp.Or(e.Message, "Forbidden")
	case status == http.StatusTooManyRequests:
		return "ThrottlingException", "Rate exceeded: Lambda runs no more of Berth's api function at once. " + e.Message
	case status >= http.StatusInternalServerError:
		return "ServiceUnavailableException", fmt.Sprintf("The api function gave no answer (status %d): %s", status,
			cmp.Or(e.Message, http.StatusText(status)))
	case code == "":
		code = "ClientException"
	}
	return code, cmp.Or(e.Message, fmt.Sprintf("The function URL answers with status %d.", status))
}
