package io.github.tollgaters.spring.filter;

import java.util.List;

/** Ways to write /login and /files/secret.txt, some of which reach their handlers, depending on the app. */
final class HostilePaths {

    static final List<String> LOGIN = List.of(
            "/login", "/LOGIN", "/Login", "/login/", "/LOGIN/", "//login", "/login//", "///login", "/./login", "/login/.",
            "/a/../login", "/login/a/..", "/../login", "/login;", "/login;a=b", "/login/;a=b", "/;/login", "/;a=b/login",
            "/lo%67in", "/%6Cogin", "/%4cOGIN", "/log%69n/", "/login%2F", "/%2Flogin", "/%2flogin", "/login%2f",
            "/login%5C", "/%5Clogin", "/\\login", "/login\\", "/%2e/login", "/a/%2e%2e/login", "/a%2F..%2Flogin",
            "/login?x=1", "/login?", "/login#x", "/login%3Fx", "/login%23", "/login%3B", "/login%00", "/login%20",
            "/login.", "/login.json", "/login.html", "/login%2e", "/lo%2567in", "/login/%2e", "/login/..;/login",
            "/..;/login", "/a/..;/login", "/login%0a", "/login%09", "/l\u00f6gin", "http://localhost/login",
            "http://localhost//login/", "http://other/LOGIN", "login", "/login/login/../", "/%c0%aflogin", "/%zzlogin",
            "/login%", "*", "/%E2%84%AAlogin", "/lo%EF%BD%87in", "/alias", "/alias/", "/dispatch", "/ALIAS");

    static final List<String> FILE = List.of(
            "/files/secret.txt", "/files//secret.txt", "//files/secret.txt", "/files/./secret.txt",
            "/files/a/../secret.txt", "/files/secret.txt;a=b", "/files;a=b/secret.txt", "/files/%73ecret.txt",
            "/files/secret%2Etxt", "/files%2Fsecret.txt", "/files/%2Fsecret.txt", "/files%5Csecret.txt",
            "/files/%5Csecret.txt", "/files\\secret.txt", "/files/secret.txt/", "/FILES/SECRET.TXT", "/files/SECRET.TXT",
            "/files/%2e/secret.txt", "/files/a/%2e%2e/secret.txt", "/files/a%2F..%2Fsecret.txt", "/files/secret.txt?x",
            "/files/secret.txt%20", "/files/secret.txt%00", "/files/secret.txt.", "/files/.%2Fsecret.txt",
            "/files/%2e%2Fsecret.txt", "/files/%252e/secret.txt", "/files/%25%32%46secret.txt", "/files/secret.txt%2F",
            "/files/x/..;/secret.txt", "/files///secret.txt");

    private HostilePaths() {
    }
}
