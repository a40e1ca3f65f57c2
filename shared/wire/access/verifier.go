package access

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"berth/shared/cluster"
)

// A Credential is an access key, its principal and the principal's rights.
type Credential struct {
	AccessKeyID     string  `json:"accessKeyId"`
	SecretAccessKey string  `json:"secretAccessKey"`
	Principal       string  `json:"principal"` // ARN
	Rights          []Right `json:"rights"`    // besides reading
}

// A Verifier checks the signatures of requests (Signature Version 4) against a fixed list of
// credentials. The embedded tier and `berth proxy` use it, because no IAM stands in front of them.
type Verifier struct {
	credentials map[string]Credential
	now         func() time.Time
}

// NewVerifier returns a verifier of requests that are signed with one of the credentials.
func NewVerifier(list []Credential, now func() time.Time) *Verifier {
	v := &Verifier{credentials: map[string]Credential{}, now: now}
	for _, c := range list {
		v.credentials[c.AccessKeyID] = c
	}
	return v
}

// ReadCredentials reads {"credentials": [...]}. It returns a verifier of requests that are signed
// with them, and the policy that their rights make.
func ReadCredentials(text []byte, now func() time.Time) (*Verifier, *Policy, error) {
	var in struct {
		Credentials []Credential `json:"credentials"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return nil, nil, fmt.Errorf("reading credentials: %w", err)
	}
	v, p := &Verifier{credentials: map[string]Credential{}, now: now}, &Policy{}
	for n, c := range in.Credentials {
		switch {
		case c.AccessKeyID == "" || c.SecretAccessKey == "" || !strings.HasPrefix(c.Principal, "arn:"):
			return nil, nil, fmt.Errorf("reading credentials: entry %d needs accessKeyId, secretAccessKey and "+
				"principal, an ARN", n+1)
		case v.credentials[c.AccessKeyID].AccessKeyID != "":
			return nil, nil, fmt.Errorf("reading credentials: access key %s is there twice", c.AccessKeyID)
		}
		v.credentials[c.AccessKeyID] = c
		for _, right := range c.Rights {
			switch right {
			case Write:
				p.Writers = append(p.Writers, c.Principal)
			case ManageNodeGroups:
				p.NodeGroupManagers = append(p.NodeGroupManagers, c.Principal)
			case Read:
			default:
				return nil, nil, fmt.Errorf("reading credentials: %q of %s is no right, expected %q, %q or "+
					"%q", right, c.AccessKeyID, Read, Write, ManageNodeGroups)
			}
		}
	}
	if len(v.credentials) == 0 {
		return nil, nil, fmt.Errorf("reading credentials: there are none, expected at least one")
	}
	return v, p, nil
}

const (
	algorithm = "AWS4-HMAC-SHA256"
	// maxSkew is how far a request's time may be off, as with AWS.
	maxSkew = 15 * time.Minute
	// maxSigned is how many bytes a signed request may have.
	maxSigned = 1 << 20
)

// A Scope is the Region and the service of AWS that a request must be signed for. An empty one
// stands for any.
type Scope struct{ Region, Service string }

// NewScope returns what a request to a service in the Region must be signed for. Requests to a
// service without a name, which is none of Berth's, may be signed for any Region: IAM, for example,
// is signed for us-east-1 in every Region.
func NewScope(service, region string) Scope {
	if service == "" {
		return Scope{}
	}
	return Scope{Region: region, Service: service}
}

// Verify returns the principal who signed the request for the scope, and leaves the body to be read
// again. A request without a valid signature gives AWS's own error.
func (v *Verifier) Verify(r *http.Request, want Scope) (principal string, err error) {
	id, scope, signed, sent, err := parseAuthorization(r.Header.Get("Authorization"))
	if err != nil {
		return "", err
	}
	c, known := v.credentials[id]
	if !known {
		return "", cluster.Errorf(cluster.CodeUnknownKey, "The security token included in the request is invalid.")
	}
	at, err := v.checkTime(r.Header.Get("X-Amz-Date"), scope)
	if err != nil {
		return "", err
	}
	switch {
	case want.Region != "" && scope.region != want.Region:
		return "", invalidSignature("Credential should be scoped to a valid region, not '" + scope.region +
			"': this endpoint is in '" + want.Region + "'.")
	case want.Service != "" && scope.service != want.Service:
		return "", invalidSignature("Credential should be scoped to correct service: '" + want.Service + "'.")
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxSigned+1))
	if err != nil {
		return "", cluster.Errorf(cluster.CodeSerialization, "The request ended early.")
	}
	if len(body) > maxSigned {
		return "", cluster.Errorf(cluster.CodeRequestEntityTooBig, "The request has more than %d bytes.", maxSigned)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	again, err := resign(r, body, signature{signed: signed, scope: scope, at: at}, c)
	if err != nil {
		return "", err
	}
	if subtle.ConstantTimeCompare([]byte(again), []byte(sent)) != 1 {
		return "", invalidSignature("The request signature we calculated does not match the signature you provided. " +
			"Check your AWS Secret Access Key and signing method.")
	}
	return c.Principal, nil
}

// checkTime returns when the request says that it was signed, unless that is too long ago or too
// far ahead.
func (v *Verifier) checkTime(text string, scope credentialScope) (at time.Time, err error) {
	const layout = "20060102T150405Z"
	if at, err = time.Parse(layout, text); err != nil {
		return at, invalidSignature("The header X-Amz-Date is missing or is no time such as " + layout + ".")
	}
	now := v.now().UTC()
	switch oldest, newest := now.Add(-maxSkew), now.Add(maxSkew); {
	case at.Before(oldest):
		return at, invalidSignature(fmt.Sprintf("Signature expired: %s is now earlier than %s (%s - 15 min.)", text,
			oldest.Format(layout), now.Format(layout)))
	case at.After(newest):
		return at, invalidSignature(fmt.Sprintf("Signature not yet current: %s is still later than %s (%s + 15 min.)",
			text, newest.Format(layout), now.Format(layout)))
	case scope.date != at.Format("20060102"):
		return at, invalidSignature("Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date " +
			"from HTTP.")
	}
	return at, nil
}

func invalidSignature(message string) error {
	return cluster.Errorf(cluster.CodeInvalidSignature, "%s", message)
}

// credentialScope is where and when a signature holds.
type credentialScope struct{ date, region, service string }

// signature has what a request says about how it was signed.
type signature struct {
	signed []string // names of headers
	scope  credentialScope
	at     time.Time
}

// parseAuthorization reads "AWS4-HMAC-SHA256 Credential=ID/DATE/REGION/SERVICE/aws4_request,
// SignedHeaders=a;b, Signature=HEX".
func parseAuthorization(text string) (id string, scope credentialScope, signed []string, hash string, err error) {
	missing := cluster.Errorf(cluster.CodeMissingToken, "Missing Authentication Token")
	rest, ok := strings.CutPrefix(text, algorithm+" ")
	if !ok {
		return "", scope, nil, "", missing
	}
	parts := map[string]string{}
	for _, part := range strings.Split(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		parts[name] = value
	}
	credential := strings.Split(parts["Credential"], "/")
	if len(credential) != 5 || parts["SignedHeaders"] == "" || parts["Signature"] == "" {
		return "", scope, nil, "", missing
	}
	scope = credentialScope{credential[1], credential[2], credential[3]}
	return credential[0], scope, strings.Split(parts["SignedHeaders"], ";"), parts["Signature"], nil
}

// resign signs those parts of the request that its caller says are signed, and returns the
// signature.
func resign(r *http.Request, body []byte, of signature, c Credential) (string, error) {
	again, err := http.NewRequestWithContext(r.Context(), r.Method, "http://"+r.Host+r.URL.RequestURI(), nil)
	if err != nil {
		return "", invalidSignature("The request cannot be read.")
	}
	hasHost := false
	for name := range r.Header { // such as X-Amz-Target, which names the operation
		if name = strings.ToLower(name); strings.HasPrefix(name, "x-amz-") && !slices.Contains(of.signed, name) {
			return "", invalidSignature("The header " + name + " must be signed.")
		}
	}
	for _, name := range of.signed {
		switch strings.ToLower(name) {
		case "host":
			hasHost = true
		case "content-length":
			again.ContentLength = int64(len(body))
		default:
			again.Header[http.CanonicalHeaderKey(name)] = r.Header.Values(name)
		}
	}
	if !hasHost {
		return "", invalidSignature("'Host' must be a 'SignedHeader' in the AWS Authorization.")
	}
	// Otherwise a signature for one operation would be good for all.
	if r.Header.Get("X-Amz-Target") != "" && again.Header.Get("X-Amz-Target") == "" {
		return "", invalidSignature("'X-Amz-Target' must be a 'SignedHeader' in the AWS Authorization.")
	}
	sum := sha256.Sum256(body)
	hash := hex.EncodeToString(sum[:])
	credentials := aws.Credentials{AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey,
		SessionToken: r.Header.Get("X-Amz-Security-Token")}
	if err := v4.NewSigner().SignHTTP(r.Context(), credentials, again, hash, of.scope.service, of.scope.region,
		of.at); err != nil {
		return "", invalidSignature("The request cannot be signed.")
	}
	_, _, _, computed, err := parseAuthorization(again.Header.Get("Authorization"))
	return computed, err
}

// Handler lets only requests with a valid signature through, with their principal in the context.
// refuse answers all others. Requests to Berth's API must be signed for the Region.
func (v *Verifier) Handler(
	region string, next http.Handler, withPrincipal func(r *http.Request, arn string) *http.Request,
	refuse func(w http.ResponseWriter, r *http.Request, err error),
) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		principal, err := v.Verify(r, NewScope(ServiceOf(r), region))
		if err != nil {
			refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, withPrincipal(r, principal))
	})
}

// ServiceOf returns the name that a request to Berth's API must be signed for, as requests to AWS
// are: "ecs", or "eks" for paths of the EKS API. It is empty for requests to other services, which
// the simulated AWS answers on the same address.
func ServiceOf(r *http.Request) string {
	target := r.Header.Get("X-Amz-Target")
	switch {
	case strings.HasPrefix(target, "AmazonEC2ContainerServiceV20141113."), strings.HasPrefix(target, "Berth_"):
		return "ecs"
	case target == "" && r.URL.Path != "/" && !strings.HasPrefix(r.URL.Path, "/service/"):
		return "eks" // paths below /service/ are Smithy's RPC, as CloudWatch has it
	}
	return ""
}
