// Says so when the data is old: a site that nobody renews looks the same every day. Without a script, the date is in the
// footer.
{
  const most = 8;
  const time = document.querySelector("footer time[datetime]");
  const days = time ? (Date.now() - Date.parse(time.dateTime)) / 86_400_000 : 0;
  if (days > most) {
    const notice = document.createElement("p");
    notice.className = "notice old";
    notice.setAttribute("role", "status");
    notice.textContent = `This data is ${Math.floor(days)} days old (as of ${time.textContent}). Newer releases are not in it.`;
    document.querySelector("main").prepend(notice);
  }
}
