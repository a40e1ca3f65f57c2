package console

import (
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"sync"
)

// gate lets only the browser in that was given the one-time token.
type gate struct {
	mu      sync.Mutex
	token   string // empty once it has been used
	session string // of the browser; empty before
	open    bool   // there is no token
}

func newGate(token string) *gate { return &gate{token: token, open: token == ""} }

// NewToken returns a random token that cannot be guessed.
func NewToken() string { return rand.Text() }

const sessionCookie = "berth-console"

// admit reports whether the request may see a page. If not, it has been answered: with the way to a
// session for the one-time token, or with a refusal.
func (g *gate) admit(w http.ResponseWriter, r *http.Request) bool {
	if g.open {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if cookie, err := r.Cookie(sessionCookie); err == nil && g.session != "" && equalSecrets(cookie.Value, g.session) {
		return true
	}
	q := r.URL.Query()
	if given := q.Get("token"); given != "" && g.token != "" && equalSecrets(given, g.token) {
		g.token, g.session = "", NewToken()
		http.SetCookie(w, &http.Cookie{Name: sessionCookie, Value: g.session, Path: "/", HttpOnly: true,
			SameSite: http.SameSiteStrictMode})
		q.Del("token")
		http.Redirect(w, r, address(r.URL.Path, "cluster", q.Get("cluster")), http.StatusSeeOther)
		return false
	}
	http.Error(w,
		"Open the address that berth printed when it started. Its token is good for one browser; start again "+
			"for another.", http.StatusForbidden)
	return false
}

func equalSecrets(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
