package proxy

import (
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth/cmd/berth/client"
	"berth/shared/wire/transport"
)

// Only who has the proxy's key, or the owner's own credentials, may call; everyone else gets AWS's
// error in the form of the protocol, and nothing is forwarded.
func TestOnlyOwnersPass(t *testing.T) {
	server, h, f := newProxy(t, fromBerth(http.StatusOK, `{"clusterArns":[]}`))
	now := time.Now()
	key := func(change func(*signing)) signing {
		s := h.by("ecs")
		if change != nil {
			change(&s)
		}
		return s
	}
	for name, c := range map[string]struct {
		as     signing
		change func(*http.Request)
		code   string // empty where the request passes
		// status is that of the ECS API's error, eks that of the EKS API's.
		status, eks int
	}{
		"WithTheKey": {key(nil), nil, "", 200, 200},
		"AsTheOwner": {signing{owner.AccessKeyID, owner.SecretAccessKey, "eu-west-1", "ecs", now}, nil, "",
			200, 200},
		"FromItself": {key(nil), func(r *http.Request) { r.Header.Set("Origin", "http://"+r.URL.Host) }, "", 200,
			200},
		"Unsigned":    {signing{}, nil, "MissingAuthenticationTokenException", 400, 403},
		"WrongSecret": {key(func(s *signing) { s.secret = "guess" }), nil, "InvalidSignatureException", 400, 403},
		"OwnersIDAlone": {signing{owner.AccessKeyID, "guess", "eu-west-1", "ecs", now}, nil,
			"InvalidSignatureException", 400, 403},
		"UnknownKey": {key(func(s *signing) { s.id = "AKIAEVE" }), nil, "UnrecognizedClientException", 400, 403},
		"Expired": {key(func(s *signing) { s.at = now.Add(-16 * time.Minute) }), nil, "InvalidSignatureException",
			400, 403},
		"OfTheFuture": {key(func(s *signing) { s.at = now.Add(16 * time.Minute) }), nil, "InvalidSignatureException",
			400, 403},
		"ForS3":     {key(func(s *signing) { s.service = "s3" }), nil, "InvalidSignatureException", 400, 403},
		"ForLambda": {key(func(s *signing) { s.service = "lambda" }), nil, "InvalidSignatureException", 400, 403},
		"OtherHost": {key(nil), func(r *http.Request) { r.Host = "evil.example" }, "AccessDeniedException", 403,
			403},
		"ReboundHost": {key(nil), func(r *http.Request) { r.Host = "evil.example:80" }, "AccessDeniedException", 403,
			403},
		"OtherOrigin": {key(nil), func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
			"AccessDeniedException", 403, 403},
		"NullOrigin": {key(nil), func(r *http.Request) { r.Header.Set("Origin", "null") }, "AccessDeniedException",
			403, 403},
		"LeavesThePath": {key(nil), func(r *http.Request) { r.URL.Path = "/../../x" }, "UnknownOperationException", 400,
			400},
	} {
		for protocol, r := range map[string]*http.Request{
			"ECS": newECS(t, server.URL, "ListClusters", `{}`),
			"EKS": newEKS(t, server.URL, http.MethodGet, "/clusters/prod/node-groups", ""),
		} {
			t.Run(name+"/"+protocol, func(t *testing.T) {
				as, before, status := c.as, f.callCount(), c.status
				if protocol == "EKS" {
					status = c.eks
					if as.service == "ecs" {
						as.service = "eks"
					}
				}
				if c.change != nil {
					c.change(r)
				}
				resp, answer := call(t, r, as)
				if resp.StatusCode != status || !strings.Contains(answer+resp.Header.Get("X-Amzn-ErrorType"), c.code) {
					t.Errorf("the answer is %s %s, want %d %s", resp.Status, answer, status, c.code)
				}
				if protocol == "ECS" && c.code != "" &&
					!strings.HasPrefix(answer, `{"__type":"`+c.code+`","message":"`) {
					t.Errorf("the error is %s, want the form of the ECS API", answer)
				}
				if passed := f.callCount() > before; passed != (c.code == "") {
					t.Errorf("the request was forwarded: %v", passed)
				}
			})
		}
	}
}

// A key of one API is not good for the other: a signature names its service.
func TestServicesAreNotMixed(t *testing.T) {
	server, h, f := newProxy(t, fromBerth(http.StatusOK, `{}`))
	for _, c := range []struct {
		request *http.Request
		service string
	}{
		{newECS(t, server.URL, "ListClusters", `{}`), "eks"},
		{newEKS(t, server.URL, http.MethodGet, "/clusters/prod/node-groups", ""), "ecs"},
		{newEKS(t, server.URL, http.MethodGet, "/", ""), "eks"},
	} {
		resp, answer := call(t, c.request, h.by(c.service))
		want := "Credential should be scoped to correct service: "
		if resp.StatusCode < 400 || !strings.Contains(answer, want) {
			t.Errorf("%s signed for %s: %s %s, want %q", c.request.URL.Path, c.service, resp.Status, answer, want)
		}
	}
	if n := f.callCount(); n != 0 {
		t.Errorf("%d requests were forwarded", n)
	}
}

// Who signs for another Region means an installation there. Services that the proxy does not have
// are refused as such: IAM, for example, is signed for us-east-1 in every Region.
func TestRegionsAreNotMixed(t *testing.T) {
	server, h, f := newProxy(t, fromBerth(http.StatusOK, `{}`))
	const elsewhere = "Credential should be scoped to a valid region, not 'us-east-1': this endpoint is in 'eu-west-1'."
	for _, c := range []struct {
		request       *http.Request
		service, want string
	}{
		{newECS(t, server.URL, "ListClusters", `{}`), "ecs", elsewhere},
		{newEKS(t, server.URL, http.MethodGet, "/clusters/prod/node-groups", ""), "eks", elsewhere},
		{newForm(t, server.URL, "Action=GetCallerIdentity&Version=2011-06-15"), "sts", elsewhere},
		{newForm(t, server.URL, "Action=ListUsers&Version=2010-05-08"), "iam", "berth proxy serves ECS, EKS and"},
	} {
		as := h.by(c.service)
		as.region = "us-east-1"
		resp, answer := call(t, c.request, as)
		if resp.StatusCode < 400 || !strings.Contains(html.UnescapeString(answer), c.want) {
			t.Errorf("%s signed for us-east-1: %s %s, want %q", c.service, resp.Status, answer, c.want)
		}
	}
	if n := f.callCount(); n != 0 {
		t.Errorf("%d requests were forwarded", n)
	}
}

func TestLongBodiesAreRefused(t *testing.T) {
	server, h, f := newProxy(t, fromBerth(http.StatusOK, `{}`))
	for size, want := range map[int]int{transport.MaxBody: 200, transport.MaxBody + 1: 413} {
		resp, answer := call(t, newECS(t, server.URL, "ListClusters", strings.Repeat(" ", size)), h.by("ecs"))
		if resp.StatusCode != want {
			t.Errorf("%d bytes: %s %.200s, want %d", size, resp.Status, answer, want)
		}
	}
	if n := f.callCount(); n != 1 {
		t.Errorf("%d requests were forwarded, want 1", n)
	}
}

// Method, path, query, headers and body arrive as they were sent, but for what authenticates; and
// so does the answer.
func TestRequestsStayAsTheyAre(t *testing.T) {
	const body = "{ \"cluster\" : \"pröd\",\r\n\t\"x\":\"\\u0000\" }\n"
	server, h, f := newProxy(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Amzn-Requestid", "id")
		w.Header()["Set-Cookie"] = []string{"a=1", "b=2"}
		w.Header().Set("Content-Encoding", "br")
		fromBerth(http.StatusTeapot, "\x00\xff answer ")(w, r)
	})
	r := newEKS(t, server.URL, http.MethodPost, "/tags/arn%3Aaws%3Aeks%2Fprod%20x?tagKeys=a%2Fb&tagKeys=c&empty", body)
	sent := http.Header{
		"Content-Type": {"application/x-amz-json-1.1; charset=utf-8"}, "Accept-Encoding": {"identity"},
		"Amz-Sdk-Invocation-Id": {"1"}, "User-Agent": {"aws-cli/2"}, "X-Amz-Meta": {"signed"},
		"X-Amzn-Trace-Id": {"Root=1"}, "X-Two": {"a", "b"}, "X-Forwarded-For": {"192.0.2.1"},
	}
	r.Header = sent.Clone()
	r.Header.Set("Connection", "x-hop")
	r.Header.Set("X-Hop", "for this connection only")
	resp, answer := call(t, r, h.by("eks"))
	if answer != "\x00\xff answer " || resp.StatusCode != http.StatusTeapot ||
		resp.Header.Get("X-Amzn-Requestid") == "" ||
		!slices.Equal(resp.Header["Set-Cookie"], []string{"a=1", "b=2"}) ||
		resp.Header.Get("Content-Encoding") != "br" {
		t.Errorf("the answer is %s %v %q", resp.Status, resp.Header, answer)
	}
	got := f.calls[0]
	text, err := io.ReadAll(got.Body)
	if err != nil || string(text) != body || got.Method != http.MethodPost ||
		got.RequestURI != "/_aws/lambda-url/id/tags/arn%3Aaws%3Aeks%2Fprod%20x?tagKeys=a%2Fb&tagKeys=c&empty" {
		t.Errorf("the request is %s %s %q, %v", got.Method, got.RequestURI, text, err)
	}
	if f.token != owner.SessionToken {
		t.Errorf("the session token is %q", f.token)
	}
	for _, name := range []string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token", "Content-Length"} {
		got.Header.Del(name)
	}
	if diff := cmp.Diff(sent, got.Header); diff != "" {
		t.Errorf("headers (-sent +forwarded):\n%s", diff)
	}
}

// No header is added where the client had none.
func TestNoHeaderIsAdded(t *testing.T) {
	server, h, f := newProxy(t, fromBerth(http.StatusOK, `{}`))
	r := newECS(t, server.URL, "ListClusters", `{}`)
	r.Header["User-Agent"] = []string{""}
	r.Header.Set("Accept-Encoding", "identity") // or the test's own client would add one
	call(t, r, h.by("ecs"))
	for _, name := range []string{"User-Agent", "Via", "Forwarded", "X-Forwarded-For"} {
		if v := f.calls[0].Header[name]; len(v) != 0 {
			t.Errorf("%s: %q was added", name, v)
		}
	}
}

// An answer that leads elsewhere is passed on, and nobody else gets the signature.
func TestRedirectsAreNotFollowed(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the redirect was followed")
	}))
	defer elsewhere.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		server, h, _ := newProxy(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, status)
		})
		if resp, _ := call(t, newECS(t, server.URL, "ListClusters", `{}`), h.by("ecs")); resp.StatusCode != status {
			t.Errorf("the answer is %s, want %d", resp.Status, status)
		}
	}
}

// GetCallerIdentity has the owner's identity, which STS is asked for once.
func TestIdentity(t *testing.T) {
	asked := 0
	sts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		_, _ = io.WriteString(w,
			`<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>arn:aws:iam::1:user/ann</Arn>`+
				`<UserId>AIDA</UserId><Account>1</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`)
	}))
	defer sts.Close()
	server, h, f := newProxy(t, fromBerth(http.StatusOK, `{}`))
	t.Setenv("AWS_ENDPOINT_URL_STS", sts.URL)
	const ask = "Action=GetCallerIdentity&Version=2011-06-15"
	for range 2 {
		resp, answer := call(t, newForm(t, server.URL, ask), h.by("sts"))
		if resp.StatusCode != 200 || !strings.Contains(answer, "<Arn>arn:aws:iam::1:user/ann</Arn>") {
			t.Errorf("the answer is %s %s", resp.Status, answer)
		}
	}
	for _, c := range []struct {
		form, service, want string
	}{
		{ask, "ecs", "<Code>SignatureDoesNotMatch</Code>"},
		{"Action=AssumeRole&Version=2011-06-15", "sts", "<Code>InvalidAction</Code>"},
		{"Action=DescribeVpcs&Version=2016-11-15", "ec2", "--keep-credentials"},
	} {
		if resp, answer := call(t, newForm(t, server.URL, c.form), h.by(c.service)); resp.StatusCode < 400 ||
			!strings.Contains(answer, c.want) {
			t.Errorf("%s for %s: %s %s, want %s", c.form, c.service, resp.Status, answer, c.want)
		}
	}
	resp, answer := call(t, newForm(t, server.URL, ask), signing{})
	if resp.StatusCode != 403 || !strings.Contains(answer, "<Code>MissingAuthenticationToken</Code>") {
		t.Errorf("unsigned: %s %s", resp.Status, answer)
	}
	if asked != 1 || f.callCount() != 0 {
		t.Errorf("STS was asked %d times and the API called %d times, want 1 and 0", asked, f.callCount())
	}
}

// Credentials that were lent stay good when the proxy has newer ones.
func TestLentCredentialsStayGood(t *testing.T) {
	server, h, f := newProxy(t, fromBerth(http.StatusOK, `{}`))
	lent, err := h.LendCredentials(t.Context())
	if err != nil || lent.AccessKeyID != owner.AccessKeyID || lent.SessionToken != owner.SessionToken {
		t.Fatalf("%+v, %v", lent, err)
	}
	asOwner := signing{owner.AccessKeyID, owner.SecretAccessKey, "eu-west-1", "ecs", time.Now()}
	old := h.target
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIANEWER")
	newer, err := client.FindTarget(t.Context(), client.Endpoint{Endpoint: old.URL.String()})
	if err != nil {
		t.Fatal(err)
	}
	f.mayBeSignedBy("AKIANEWER")
	h.target = newer
	if resp, answer := call(t, newECS(t, server.URL, "ListClusters", `{}`), asOwner); resp.StatusCode != 200 {
		t.Errorf("lent: %s %s", resp.Status, answer)
	}
	h.lent = nil
	if resp, answer := call(t, newECS(t, server.URL, "ListClusters", `{}`), asOwner); resp.StatusCode != 400 {
		t.Errorf("never lent: %s %s", resp.Status, answer)
	}
}
