package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/smithy-go"

	"berth/shared/awsapi"
	"berth/shared/awsapi/outcome"
)

// AWS calls services of AWS itself, a few operations each. The requests are written here, because
// the SDK's packages for these services take longer to compile than all the rest of this program.
//
// It signs with AWS's time, which the answers have: a machine whose clock is wrong is refused once,
// and then heard.
type AWS struct {
	config aws.Config
	now    func() time.Time
	slots  chan struct{} // bounds the calls at a time

	mu     sync.Mutex
	offset *time.Duration // AWS's clock minus this machine's; nil before the first answer
}

// maxCalls is how many calls [AWS] makes at a time, so that no service throttles them.
const maxCalls = 8

// NewAWS returns a caller with the configuration's credentials. now is this machine's clock.
func NewAWS(conf aws.Config, now func() time.Time) *AWS {
	return &AWS{config: conf, now: now, slots: make(chan struct{}, maxCalls)}
}

// LoadAWS returns a caller with the credentials and the Region of the flags.
func LoadAWS(ctx context.Context, e Endpoint, now func() time.Time) (*AWS, error) {
	conf, err := e.loadAccount(ctx)
	if err != nil {
		return nil, err
	}
	return NewAWS(conf, now), nil
}

// Service is a service of AWS: the name that it is signed with, that of its host, and that of the
// variable that may name another endpoint.
type Service struct{ Signing, Host, Variable string }

// Call is one call: of an operation with a target in a header (JSON), with a form (Query), or with
// a path alone.
type Call struct {
	Service      Service
	Method, Path string // POST and / if empty
	ContentType  string
	Target       string
	Body         []byte
	// URL is where the request goes instead of to the service's endpoint, with the Host header and
	// the Region of a function URL.
	URL, FunctionHost string
}

// EndpointOf returns where a service is.
func (a *AWS) EndpointOf(s Service) string {
	endpoint, _ := a.endpointOf(s)
	return endpoint
}

// Region returns the Region that is called.
func (a *AWS) Region() string { return a.config.Region }

// Offset returns AWS's clock minus this machine's, to about a second, and false before the first
// answer.
func (a *AWS) Offset() (time.Duration, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.offset == nil {
		return 0, false
	}
	return *a.offset, true
}

// Now returns AWS's time.
func (a *AWS) Now() time.Time {
	offset, _ := a.Offset()
	return a.now().Add(offset)
}

// noteDate keeps the offset of the first answer. The Date header has whole seconds, so on average
// it is half a second behind.
func (a *AWS) noteDate(h http.Header, sent, received time.Time) {
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.offset == nil {
		a.offset = new(date.Add(time.Second / 2).Sub(sent.Add(received.Sub(sent) / 2)))
	}
}

// skewCodes are the codes by which services refuse a request whose time is wrong.
var skewCodes = map[string]bool{"RequestTimeTooSkewed": true, "RequestExpired": true, "RequestInTheFuture": true,
	"SignatureDoesNotMatch": true, "InvalidSignatureException": true, "AuthFailure": true}

// skewTolerance is less than any service tolerates, and more than a Date header is wrong by.
const skewTolerance = time.Minute

// Attempts of one call, and the first pause between them if the service throttles.
const (
	maxAttempts = 4
	firstPause  = 200 * time.Millisecond
)

// CallService sends a call and returns the answer. An error of the service is a smithy.APIError.
func (a *AWS) CallService(ctx context.Context, c Call) ([]byte, error) {
	select {
	case a.slots <- struct{}{}:
		defer func() { <-a.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	pause := firstPause
	for attempt := 1; ; attempt++ {
		_, knew := a.Offset()
		answer, err := a.sendCall(ctx, c)
		var refusal smithy.APIError
		offset, known := a.Offset()
		if err == nil || attempt == maxAttempts || !errors.As(err, &refusal) {
			return answer, err
		}
		switch {
		case outcome.IsThrottled(err):
			select {
			case <-time.After(pause):
				pause *= 2
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		case known && !knew && offset.Abs() > skewTolerance && skewCodes[refusal.ErrorCode()]:
		default:
			return answer, err
		}
	}
}

// maxAWSAnswer is larger than any answer that is asked for.
const maxAWSAnswer = 16 << 20

// sendCall sends the call once.
func (a *AWS) sendCall(ctx context.Context, c Call) ([]byte, error) {
	endpoint, region := a.endpointOf(c.Service)
	target := endpoint + strings.TrimPrefix(cmp.Or(c.Path, "/"), "/")
	if c.URL != "" {
		target, region = c.URL, cmp.Or(regionOf(c.FunctionHost), region)
	}
	r, err := http.NewRequestWithContext(ctx, cmp.Or(c.Method, http.MethodPost), target, bytes.NewReader(c.Body))
	if err != nil {
		return nil, err
	}
	if c.FunctionHost != "" {
		r.Host = c.FunctionHost
	}
	if c.ContentType != "" {
		r.Header.Set("Content-Type", c.ContentType)
	}
	if c.Target != "" {
		r.Header.Set("X-Amz-Target", c.Target)
	}
	keys, err := a.config.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, credentialsError(err)
	}
	at := a.now()
	if offset, _ := a.Offset(); offset.Abs() > skewTolerance {
		at = at.Add(offset)
	}
	sum := sha256.Sum256(c.Body)
	if err := v4.NewSigner().SignHTTP(ctx, keys, r, hex.EncodeToString(sum[:]), c.Service.Signing, region,
		at); err != nil {
		return nil, fmt.Errorf("signing the request: %w", err)
	}
	sent := a.now()
	resp, err := awsapi.HTTP{Client: a.config.HTTPClient}.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	a.noteDate(resp.Header, sent, a.now())
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAWSAnswer))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return nil, readRefusal(resp, c.Service, answer)
	}
	return answer, nil
}

// readRefusal reads the error of an answer, in JSON or in either form of XML.
func readRefusal(resp *http.Response, s Service, answer []byte) error {
	var inXML struct {
		Code    string `xml:"Error>Code"`
		Message string `xml:"Error>Message"`
		EC2     struct {
			Code    string `xml:"Error>Code"`
			Message string `xml:"Error>Message"`
		} `xml:"Errors"`
	}
	var inJSON struct {
		Type    string `json:"__type"`
		Message string `json:"message"` // also Message: names are compared without case
	}
	code, message := "", ""
	if json.Unmarshal(answer, &inJSON) == nil {
		code, message = cmp.Or(inJSON.Type, resp.Header.Get("X-Amzn-ErrorType")), inJSON.Message
		code, _, _ = strings.Cut(code[strings.LastIndexByte(code, '#')+1:], ":")
	} else if xml.Unmarshal(answer, &inXML) == nil {
		code, message = cmp.Or(inXML.Code, inXML.EC2.Code), cmp.Or(inXML.Message, inXML.EC2.Message)
	}
	if code == "" {
		return fmt.Errorf("%s answers with status %d", s.Host, resp.StatusCode)
	}
	return &smithy.GenericAPIError{Code: code, Message: message}
}

// CallQuery calls an action of a service that takes forms, and decodes its XML into out.
func (a *AWS) CallQuery(ctx context.Context, s Service, form url.Values, out any) error {
	answer, err := a.CallService(ctx, Call{Service: s, Body: []byte(form.Encode()),
		ContentType: "application/x-www-form-urlencoded; charset=utf-8"})
	if err != nil {
		return err
	}
	return xml.Unmarshal(answer, out)
}

// endpointOf returns where a service is: at the endpoint of its variable or of the configuration,
// or at AWS's of the Region. IAM has one for each partition.
func (a *AWS) endpointOf(s Service) (endpoint, region string) {
	region = a.config.Region
	base := cmp.Or(os.Getenv("AWS_ENDPOINT_URL_"+s.Variable), os.Getenv("AWS_ENDPOINT_URL"),
		aws.ToString(a.config.BaseEndpoint))
	domain, global, isGlobal := "amazonaws.com", "us-east-1", s.Host == "iam"
	host := s.Host + "." + region
	switch {
	case strings.HasPrefix(region, "cn-"):
		domain, global = "amazonaws.com.cn", "cn-north-1"
		if isGlobal {
			host = "iam.cn-north-1"
		}
	case isGlobal && strings.HasPrefix(region, "us-gov-"):
		host, global = "iam.us-gov", "us-gov-west-1"
	case isGlobal:
		host = "iam"
	}
	if isGlobal {
		region = global
	}
	if base == "" {
		base = "https://" + host + "." + domain
	}
	return strings.TrimSuffix(base, "/") + "/", region
}
