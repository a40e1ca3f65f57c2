package awsapi

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// A signedPost is a call of AWS that no client of the SDK makes.
type signedPost struct {
	Endpoint        string
	Service, Region string // in the signature
	Header          http.Header
	Body            []byte
	Credentials     aws.CredentialsProvider
	Now             func() time.Time // nil is the machine's clock
}

// newSignedPost returns the request, signed as the SDK would do it.
func newSignedPost(ctx context.Context, p signedPost) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.Endpoint, bytes.NewReader(p.Body))
	if err != nil {
		return nil, err
	}
	r.URL.Path = cmp.Or(r.URL.Path, "/")
	r.Header = p.Header
	credentials, err := p.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, fmt.Errorf("getting credentials: %w", err)
	}
	now := time.Now
	if p.Now != nil {
		now = p.Now
	}
	sum := sha256.Sum256(p.Body)
	if err := v4.NewSigner().SignHTTP(ctx, credentials, r, hex.EncodeToString(sum[:]), p.Service, p.Region,
		now()); err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}
	return r, nil
}
