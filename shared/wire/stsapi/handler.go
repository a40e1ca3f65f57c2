package stsapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"berth/shared/cluster"
	"berth/shared/wire/transport"
)

// Identity is who calls.
type Identity struct {
	ARN     string `xml:"Arn"`
	UserID  string `xml:"UserId"`
	Account string `xml:"Account"`
}

// IdentityOf returns the identity of a principal by its ARN. The user id is made up from the ARN,
// in AWS's form. The principal "" stands for the account's root user.
func IdentityOf(account, principal string) Identity {
	if principal == "" {
		principal = "arn:aws:iam::" + account + ":root"
	}
	parts := strings.SplitN(principal, ":", 6)
	if len(parts) == 6 && parts[4] != "" {
		account = parts[4]
	}
	kind, rest, _ := strings.Cut(parts[len(parts)-1], "/")
	id := Identity{ARN: principal, UserID: account, Account: account}
	switch kind {
	case "user":
		id.UserID = "AIDA" + uniqueID(principal)
	case "assumed-role":
		role, session, _ := strings.Cut(rest, "/")
		id.UserID = "AROA" + uniqueID(account+role) + ":" + session
	}
	return id
}

func uniqueID(of string) string {
	sum := sha256.Sum256([]byte(of))
	return base32.StdEncoding.EncodeToString(sum[:10])
}

const (
	// Version is what every form to STS has.
	Version   = "2011-06-15"
	namespace = "https://sts.amazonaws.com/doc/2011-06-15/"
)

// Handler answers requests to STS, which it knows by the version in their form, and passes all
// others on to next. who says who the caller is.
func Handler(who func(ctx context.Context) (Identity, error), next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !IsForm(r) {
			next.ServeHTTP(w, r)
			return
		}
		body, err := transport.ReadBody(w, r)
		if err != nil {
			WriteError(w, err)
			return
		}
		form, err := url.ParseQuery(string(body))
		if err != nil || form.Get("Version") != Version {
			r.Body = io.NopCloser(bytes.NewReader(body))
			next.ServeHTTP(w, r)
			return
		}
		answerForm(w, r, form, who)
	})
}

// IsForm reports whether a request speaks the Query protocol.
func IsForm(r *http.Request) bool {
	return r.Method == http.MethodPost &&
		strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded")
}

// answerForm answers a request to STS. Like AWS's, it must be signed; its
// signature was checked before.
func answerForm(
	w http.ResponseWriter, r *http.Request, form url.Values, who func(ctx context.Context) (Identity, error),
) {
	if err := transport.CheckLoopback(r); err != nil {
		WriteError(w, err)
		return
	}
	if !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-") {
		WriteError(w, cluster.Errorf(cluster.CodeMissingToken, "Request is missing Authentication Token"))
		return
	}
	if action := form.Get("Action"); action != "GetCallerIdentity" {
		WriteError(w, cluster.Errorf("InvalidAction", "%.100q is not served here: of STS there is only "+
			"GetCallerIdentity.", action))
		return
	}
	identity, err := who(r.Context())
	if err != nil {
		WriteError(w, err)
		return
	}
	type answer struct {
		XMLName   xml.Name `xml:"GetCallerIdentityResponse"`
		Namespace string   `xml:"xmlns,attr"`
		Identity  Identity `xml:"GetCallerIdentityResult"`
		RequestID string   `xml:"ResponseMetadata>RequestId"`
	}
	writeXML(w, http.StatusOK, answer{Namespace: namespace, Identity: identity, RequestID: transport.NewRequestID()})
}

// queryCodes are the Query protocol's names of errors that other protocols call otherwise.
var queryCodes = map[cluster.Code]cluster.Code{
	cluster.CodeMissingToken:     "MissingAuthenticationToken",
	cluster.CodeInvalidSignature: "SignatureDoesNotMatch",
	cluster.CodeUnknownKey:       "InvalidClientTokenId",
	cluster.CodeAccessDenied:     "AccessDenied",
	cluster.CodeServer:           "InternalFailure",
}

// WriteError answers a request of the Query protocol with an error, in the codes and statuses of
// STS.
func WriteError(w http.ResponseWriter, err error) {
	e := &cluster.Error{Code: cluster.CodeServer, Message: "The request could not be answered."}
	errors.As(err, &e)
	status := http.StatusBadRequest
	switch e.Code {
	case cluster.CodeMissingToken, cluster.CodeInvalidSignature, cluster.CodeUnknownKey, cluster.CodeAccessDenied:
		status = http.StatusForbidden
	case cluster.CodeRequestEntityTooBig:
		status = http.StatusRequestEntityTooLarge
	case cluster.CodeServer:
		status = http.StatusInternalServerError
	}
	code := e.Code
	if c, ok := queryCodes[code]; ok {
		code = c
	}
	type answer struct {
		XMLName   xml.Name `xml:"ErrorResponse"`
		Namespace string   `xml:"xmlns,attr"`
		Type      string   `xml:"Error>Type"`
		Code      string   `xml:"Error>Code"`
		Message   string   `xml:"Error>Message"`
		RequestID string   `xml:"RequestId"`
	}
	writeXML(w, status, answer{Namespace: namespace, Type: "Sender", Code: string(code), Message: e.Message,
		RequestID: transport.NewRequestID()})
}

func writeXML(w http.ResponseWriter, status int, answer any) {
	text, _ := xml.Marshal(answer) // strings cannot fail
	transport.WriteAnswer(w, "text/xml", status, text)
}
