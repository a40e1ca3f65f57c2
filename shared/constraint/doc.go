// Package constraint decides whether an instance satisfies an expression.
//
// [ParseQuery] and [ParseProperties] compile a text into an [Expression], once;
// [Expression.Matches] evaluates it for a [Subject], often. Package placement calls both, and the
// API checks the expressions that users give. An expression asks only its Subject. Start reading at
// expression.go.
//
// Invariants:
//   - Every text gives either an Expression or a *SyntaxError, and compiling and matching take
//     bounded time.
//   - An Expression's String parses to the same Expression.
//   - An Expression is immutable, so it may be used concurrently.
//
// There are two languages. [ParseQuery] reads the cluster query language of ECS (S3, "Cluster query
// language" in the Amazon ECS Developer Guide), whose words may be written in any case:
//
//	query      = and { ( "or" | "||" ) and } .
//	and        = not { ( "and" | "&&" ) not } .
//	not        = ( "not" | "!" ) not | "(" query ")" | comparison .
//	comparison = subject ( operator value | member list | match pattern | presence ) .
//	subject    = "agentConnected" | "agentVersion" | "attribute:" name | "ec2InstanceId" | "registeredAt"
//	           | "runningTasksCount" | "task:group" .
//	operator   = "==" | "equals" | "!=" | "not_equals" | ">" | "greater_than" | ">=" | "greater_than_equal"
//	           | "<" | "less_than" | "<=" | "less_than_equal" .
//	member     = "in" | "!in" | "not_in" .
//	match      = "=~" | "matches" | "!~" | "not_matches" .
//	presence   = "exists" | "!exists" | "not_exists" .
//	list       = "[" value { "," value } "]" .
//	value      = quoted | bare .         // bare: no blank and none of ( ) [ ] , ' " = < > ! ~ & |
//	pattern    = quoted | bare .         // bare: no blank, parentheses in pairs; a regular expression of Java
//	quoted     = "'" { any but "'" } "'" | '"' { any but '"' } '"' .
//	name       = letters, digits and - _ . / \ .
//
// Example: attribute:ecs.instance-type =~ m5.* and not (task:group == service:web)
//
// [ParseProperties] reads the node-property constraints of Service Fabric (P7, P8). There, blanks
// around a token are not part of it, but quotes are:
//
//	constraint = [ or ] .
//	or         = and { "||" and } .
//	and        = comparison { "&&" comparison } .
//	comparison = unary { ( "==" | "!=" | ">=" | "<=" | "<" | ">" | "^P" | "!^P" | "^" | "!^" | "~" ) unary } .
//	unary      = "!" unary | "(" or ")" | token .
//	token      = all text up to the next operator or parenthesis .
//
// The left token of a comparison names a property, and the right one is a literal. Everything else,
// such as a Boolean operator over a bare token, parses and gives an error when it is evaluated, as
// in Service Fabric.
//
// Example: (NodeType == Front || Ram >= 16384) && FaultDomain ^ fd:/dc1
package constraint
