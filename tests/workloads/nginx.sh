# nginx_files WORKERS PORT [LINES OF THE SERVER BLOCK]: a configuration and what is served.
nginx_files() {
	mkdir -p html temp
	seq 200 > html/small
	head -c 300000 /dev/zero | tr '\0' 'x' > html/large
	cat > nginx.conf <<-END
		daemon off;
		worker_processes $1;
		pid nginx.pid;
		error_log stderr;
		events { worker_connections 256; }
		http {
			access_log access.log;
			client_body_temp_path temp/1; proxy_temp_path temp/2; fastcgi_temp_path temp/3;
			uwsgi_temp_path temp/4; scgi_temp_path temp/5;
			sendfile on;
			server { listen 127.0.0.1:$2; root html; ${3-} }
		}
	END
}
