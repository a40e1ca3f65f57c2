// Package proxy lets the tools of ECS and EKS call Berth on AWS.
//
// Berth's API there is a function URL, which takes only requests that are signed for Lambda; no
// tool signs its calls to ECS that way. [Handler] listens on loopback. It checks who calls, signs
// each request again with the user's AWS credentials, and forwards it to that one URL. The headers
// and the body stay as they are, except for what authenticates the caller.
//
// Who may call: those who sign with the random [Key] of this proxy, which its child process gets,
// and those who sign with the very credentials that the proxy has, who borrow nothing. All others
// are refused in AWS's own words, and so are requests that a web page could have sent.
//
// [Key.Environment] returns the variables of a child process and [RunCommand] runs it. forward.go
// sends requests and says which may be repeated; answer.go puts Lambda's own errors into the form
// that the client's protocol has. Start reading at [Handler.ServeHTTP].
package proxy
